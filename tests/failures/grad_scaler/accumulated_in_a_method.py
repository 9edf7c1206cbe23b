# code: BS224
# variable: self.scaler.unscale_(self.optimizer)
# cause: self.scaler.unscale_(self.optimizer)
# fix: the clipping on line 20
import torch
from torch import nn


class Trainer:
    def __init__(self, model, accumulate=4):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler("cpu")
        self.accumulate = accumulate

    def backward(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x), y) / self.accumulate
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def fit(self, steps):
        for step in range(1, steps + 1):
            self.backward(torch.randn(4, 8), torch.randint(3, (4,)))
            if step % self.accumulate == 0:
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()


Trainer(nn.Linear(8, 3)).fit(8)
