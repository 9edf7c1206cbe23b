# code: BS202
# variable: opt.step()
# cause: opt.step()
# fix: loss = self.losses(x, age, kind)[name]
import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.age = nn.Linear(32, 1)
        self.kind = nn.Linear(32, 4)

    def forward(self, x):
        h = self.trunk(x)
        return self.age(h).squeeze(1), self.kind(h)


class TwoOptimizerTrainer:
    def __init__(self, model):
        self.model = model
        trunk = list(model.trunk.parameters())
        self.opts = {
            "age": torch.optim.Adam(trunk + list(model.age.parameters()), lr=1e-3),
            "kind": torch.optim.Adam(trunk + list(model.kind.parameters()), lr=1e-3),
        }

    def losses(self, x, age, kind):
        a, k = self.model(x)
        return {"age": F.mse_loss(a, age), "kind": F.cross_entropy(k, kind)}

    def step(self, x, age, kind):
        losses = self.losses(x, age, kind)
        for name, loss in losses.items():
            opt = self.opts[name]
            opt.zero_grad()
            loss.backward(retain_graph=True)
            opt.step()
        return {k: v.item() for k, v in losses.items()}


def data(n):
    x = torch.randn(n, 10)
    return x, x[:, 0] + x[:, 1], x[:, 2:6].argmax(1)


torch.manual_seed(0)
trainer = TwoOptimizerTrainer(MultiTask())
x, age, kind = data(256)
for epoch in range(10):
    for i in range(0, 256, 64):
        logs = trainer.step(x[i : i + 64], age[i : i + 64], kind[i : i + 64])
    print(epoch, logs)
