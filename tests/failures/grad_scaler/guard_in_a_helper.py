# code: BS224
# variable: self.scaler.unscale_(self.optimizer)
# cause: return None  # too large
# fix: Put `self.scaler.update()` above line 41
import torch
from torch import nn


class Loop:
    def __init__(self, limit=3.0):
        torch.manual_seed(1)
        self.model = nn.Linear(6, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        self.limit = limit

    def clipped_norm(self):
        self.scaler.unscale_(self.optimizer)
        return nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def run(self, batches):
        for batch in batches:
            value = self.advance(*batch)
            print("skipped" if value is None else value)

    def advance(self, x, y):
        self.optimizer.zero_grad()
        loss = (self.model(x) - y).abs().mean()
        self.scaler.scale(loss).backward()
        if self.apply() is None:
            return None
        return loss.item()

    def apply(self):
        if torch.is_grad_enabled():
            norm = self.clipped_norm()
        else:
            norm = torch.zeros(())
        if norm > self.limit:
            print("large gradient", norm.item())
            return None  # too large
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return norm


Loop().run([(torch.randn(4, 6) * (9 if k == 2 else 1), torch.randn(4, 1)) for k in range(6)])
