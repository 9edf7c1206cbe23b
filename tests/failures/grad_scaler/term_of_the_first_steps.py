# code: BS224
# variable: self.proposal
# cause: if step < 2 or step % 4 == 0:
# fix: if any(p.grad is not None
import torch
import torch.nn.functional as F
from torch import nn


class Pipeline:
    def __init__(self):
        self.field, self.proposal = nn.Linear(3, 1), nn.Linear(3, 1)
        self.optimizers = [torch.optim.Adam(m.parameters(), lr=1e-3) for m in (self.field, self.proposal)]
        self.scaler = torch.amp.GradScaler("cpu")

    def losses(self, step, x, y):
        out = {"rgb": F.mse_loss(self.field(x), y)}
        if step < 2 or step % 4 == 0:
            out["interlevel"] = F.mse_loss(self.proposal(x), self.field(x).detach())
        return out

    def train_iteration(self, step):
        x = torch.rand(16, 3)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        losses = self.losses(step, x, x.sum(1, keepdim=True))
        self.scaler.scale(sum(losses.values())).backward()
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()


pipeline = Pipeline()
for step in range(8):
    pipeline.train_iteration(step)
