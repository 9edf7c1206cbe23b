# code: BS224
# variable: self.scaler.unscale_(self.optimizer)
# cause: self.scaler.unscale_(self.optimizer)  # to log the true norm
# fix: remove line
import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler("cpu")

    def gradient_norm(self):
        self.scaler.unscale_(self.optimizer)  # to log the true norm
        return torch.stack([p.grad.norm() for p in self.model.parameters()]).norm()

    def step(self, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(self.model(x), y)
        self.scaler.scale(loss).backward()
        norm = self.gradient_norm()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return loss.item(), norm


trainer = Trainer(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)))
trainer.step(torch.randn(4, 8), torch.randint(3, (4,)))
