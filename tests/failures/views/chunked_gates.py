# code: BS209
# variable: g
# cause: g.tanh_()
# fix: g = g.tanh()
import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.input = nn.Linear(inputs, 3 * width)

    def forward(self, x):
        i, f, g = self.input(x).chunk(3, dim=-1)
        g.tanh_()
        return torch.sigmoid(i) * g + torch.sigmoid(f)


loss = Cell(4, 5)(torch.randn(2, 4)).sum()
loss.backward()
