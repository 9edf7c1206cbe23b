# code: BS202
# variable: h | block.act
# cause: y = self.act(h)
# fix: Create that ReLU without inplace=True
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.act = nn.Linear(4, 4), nn.ReLU(inplace=True)

    def forward(self, x):
        h = torch.sigmoid(self.lin(x))
        y = self.act(h)
        return (h * y).sum()


block = Block()
block(torch.randn(2, 4)).backward()
