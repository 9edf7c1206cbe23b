# code: BS202
# variable: h
# cause: h = F.dropout(h, training=self.training, **self.config["dropout"])
# fix: inplace
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.up = nn.Linear(config["width"], config["width"])
        self.down = nn.Linear(config["width"], 1)

    def forward(self, x):
        h = torch.tanh(self.up(x))
        h = F.dropout(h, training=self.training, **self.config["dropout"])
        return self.down(h)


config = {"width": 8, "dropout": {"p": 0.5, "inplace": True}}
model = Block(config)
loss = model(torch.randn(4, 8)).sum()
loss.backward()
