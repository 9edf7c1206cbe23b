# code: BS223
# variable: model.slope
# cause: self.slope = torch.zeros(3, requires_grad=True)
# fix: self.slope = nn.Parameter(torch.zeros(3))
import torch
from torch import nn


class Line(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = torch.zeros(3, requires_grad=True)
        self.offset = torch.zeros(1, requires_grad=True)

    def forward(self, x):
        return x @ self.slope + self.offset


model = Line()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
