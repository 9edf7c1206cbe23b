# code: BS202
# variable: sigmoid had saved
# cause: return y + self.act(y)
# fix: Create that ELU without inplace=True
import torch
from torch import nn

kinds = {"relu": nn.ReLU, "elu": nn.ELU}


class Block(nn.Module):
    def __init__(self, width, kind):
        super().__init__()
        self.mix = nn.Linear(width, width)
        self.act = kinds[kind](inplace=True)

    def forward(self, x):
        y = torch.sigmoid(self.mix(x))
        return y + self.act(y)


block = Block(4, "elu")
block(torch.rand(3, 4)).sum().backward()
