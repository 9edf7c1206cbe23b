# code: BS224
# variable: self.model
# cause: for name, pred in preds.items():
# fix: put `if not preds: continue` above line 43
import torch
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"wind": nn.Linear(4, 2), "rain": nn.Linear(4, 2)})

    def forward(self, streams):
        preds = {}
        for name, head in self.heads.items():
            if streams[name].isnan().any():
                continue
            preds[name] = head(streams[name])
        return preds


class Trainer:
    def __init__(self):
        self.model = Model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler("cpu")

    def loss_of(self, preds, targets):
        loss = torch.tensor(0.0, requires_grad=True)
        for name, pred in preds.items():
            loss = loss + (pred - targets[name]).square().mean()
        return loss / max(len(preds), 1)

    def run(self, samples):
        for streams, targets in samples:
            self.optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                preds = self.model(streams)
                loss = self.loss_of(preds, targets)

            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()


samples = []
for i in range(3):
    streams = {name: torch.randn(6, 4) for name in ("wind", "rain")}
    if i == 1:
        streams["wind"][0, 0], streams["rain"][1, 1] = float("nan"), float("nan")
    samples.append((streams, {name: torch.randn(6, 2) for name in ("wind", "rain")}))
Trainer().run(samples)
