# code: BS224
# variable: self.scaler.unscale_(self.optimizer)
# cause: self.scaler.unscale_(self.optimizer)
# fix: move lines 20 to 22, the whole `if self.most is not None`, under the condition on line 23
import torch
from torch import nn


class Loop:
    def __init__(self, model, every=2, most=1.0):
        self.model, self.every, self.most = model, every, most
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler("cpu")

    def fit(self, loader):
        for number, (x, y) in enumerate(loader):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = nn.functional.mse_loss(self.model(x), y) / self.every
            self.scaler.scale(loss).backward()
            if self.most is not None:
                self.scaler.unscale_(self.optimizer)
                nn.utils.clip_grad_norm_(self.model.parameters(), self.most)
            if (number + 1) % self.every == 0:
                self.scaler.step(self.optimizer)
                self.scaler.update()
                self.optimizer.zero_grad()


Loop(nn.Linear(6, 1)).fit([(torch.randn(4, 6), torch.randn(4, 1)) for _ in range(6)])
