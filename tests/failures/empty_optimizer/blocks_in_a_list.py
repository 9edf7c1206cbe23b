# code: BS223
# variable: model.blocks
# cause: self.blocks = [nn.Linear(width, width) for _ in range(depth)]
# fix: self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = [nn.Linear(width, width) for _ in range(depth)]

    def forward(self, x):
        for block in self.blocks:
            x = torch.relu(block(x))
        return x


model = Net(8, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
