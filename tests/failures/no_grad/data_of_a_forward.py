# code: BS203
# variable: loss
# cause: return self.net(x).data
# fix: return self.net(x)
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 2)

    def forward(self, x):
        return self.net(x).data

    def training_step(self, x):
        return self(x).mean()


model = Model()
loss = model.training_step(torch.randn(4, 3))
loss.backward()
