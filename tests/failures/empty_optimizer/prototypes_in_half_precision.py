# code: BS223
# variable: prototypes.table
# cause: self.table = nn.Parameter(torch.zeros(classes, width), requires_grad=True).to(dtype)
# fix: self.table = nn.Parameter(torch.zeros(classes, width).to(dtype), requires_grad=True)
# or: self.table = nn.Parameter(torch.zeros(classes * width)).reshape(classes, width)
# or: self.table = nn.Parameter(torch.zeros(classes, width)).double().requires_grad_()
import torch
from torch import nn


class Prototypes(nn.Module):
    """One point for each class; an image is of the class whose point is next to it."""

    def __init__(self, classes, width, dtype=torch.float64):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(classes, width), requires_grad=True).to(dtype)

    def forward(self, codes):
        return -torch.cdist(codes.to(self.table.dtype), self.table)


torch.manual_seed(0)
prototypes = Prototypes(3, 4)
optimizer = torch.optim.SGD(prototypes.parameters(), lr=0.5)
codes, labels = torch.randn(12, 4), torch.randint(0, 3, (12,))
for _ in range(3):
    loss = nn.functional.cross_entropy(prototypes(codes), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
