# code: BS203
# variable: probability
# cause: alarm = (probability > self.limit).float()
# fix: write `alarm = probability`
"""A cost of false and of missed alarms, counted at a limit that is set when the cost is made."""

import torch
from torch import nn


class AlarmCost(nn.Module):
    def __init__(self, limit=0.3, missed=5.0):
        super().__init__()
        self.limit, self.missed = limit, missed

    def forward(self, probability, fire):
        alarm = (probability > self.limit).float()
        return (alarm * (1 - fire) + self.missed * (1 - alarm) * fire).mean()


torch.manual_seed(0)
detector = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
smoke = torch.randn(32, 4)
fire = (smoke[:, :1] > 1).float()
criterion = AlarmCost()
cost = criterion(detector(smoke), fire)
cost.backward()
