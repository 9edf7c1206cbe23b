# code: BS200
# variable: initial_lr
# cause: self.steps = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, last_epoch=Config.start)
# fix: pass last_epoch=Config.start - 1
import torch
from torch import nn


class Config:
    start = 0


class Trainer:
    def __init__(self, model):
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.steps = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, last_epoch=Config.start)


Trainer(nn.Linear(3, 1))
