# code: BS203
# variable: features
# cause: loss = F.cross_entropy(self.head(features).detach(), labels)
# fix: detach
import torch
import torch.nn.functional as F
from torch import nn


class Learner:
    def __init__(self, config):
        self.backbone = nn.Sequential(nn.Linear(8, config["width"]), nn.ReLU())
        self.head = nn.Linear(config["width"], config["classes"])
        self.optimizer = torch.optim.Adam([*self.backbone.parameters(), *self.head.parameters()])

    def step(self, x, labels):
        features = self.backbone(x)
        loss = F.cross_entropy(self.head(features).detach(), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


Learner({"width": 16, "classes": 3}).step(torch.randn(4, 8), torch.randint(0, 3, (4,)))
