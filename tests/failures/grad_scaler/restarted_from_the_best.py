# code: BS224
# variable: self.opt
# cause: self.model, self.since = copy.deepcopy(self.best), 0
# fix: write `self.model.load_state_dict(self.best.state_dict())` above it
import copy
import torch
from torch import nn

class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 2)
        self.opt, self.scaler = torch.optim.SGD(self.model.parameters(), lr=0.1), torch.amp.GradScaler("cpu")
        self.best, self.since = None, 0

    def remember(self):
        self.best = copy.deepcopy(self.model)

    def restart(self):
        self.model, self.since = copy.deepcopy(self.best), 0

    def fit(self):
        for step in range(3):
            if step == 0:
                self.remember()
            if step == 1:
                self.restart()
            x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.opt.zero_grad()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            self.scaler.update()

Trainer().fit()
