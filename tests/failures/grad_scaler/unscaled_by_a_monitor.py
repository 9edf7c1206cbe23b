# code: BS224
# variable: self.scaler.unscale_(self.optimizer)
# cause: self.scaler.unscale_(optimizer)
# fix: Unscale once per step
import torch
from torch import nn
from torch.amp import GradScaler


class GradientMonitor:
    def __init__(self, scaler, every=3):
        self.scaler, self.every, self.count, self.norms = scaler, every, 0, []

    def __call__(self, optimizer):
        self.count += 1
        if self.count % self.every:
            return
        self.scaler.unscale_(optimizer)
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        self.norms.append(torch.stack([g.norm() for g in grads]).norm().item())


class Trainer:
    def __init__(self, model):
        self.model, self.scaler = model, GradScaler("cpu", init_scale=1024.0)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        self.monitor = GradientMonitor(self.scaler)

    def apply(self):
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def step(self, x, y):
        self.optimizer.zero_grad()
        self.scaler.scale((self.model(x) - y).square().mean()).backward()
        self.monitor(self.optimizer)
        self.apply()


trainer = Trainer(nn.Linear(4, 2))
for _ in range(4):
    trainer.step(torch.randn(8, 4), torch.randn(8, 2))
