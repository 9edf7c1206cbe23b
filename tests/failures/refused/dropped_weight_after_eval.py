# code: BS200
# variable: kernel
# cause: kernel = functional.dropout(self.cell.kernel_full, 0.3, training=self.training)
# fix: self.cell.kernel = kernel.clone()
import torch
from torch import nn
from torch.nn import functional


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel_full = nn.Parameter(torch.randn(4, 4))
        self.kernel = None

    def forward(self, x):
        return x @ self.kernel


class Dropped(nn.Module):
    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x):
        kernel = functional.dropout(self.cell.kernel_full, 0.3, training=self.training)
        self.cell.kernel = kernel
        return self.cell(x)


net = Dropped(Cell())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    net.train()
    net(torch.randn(3, 4)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    net.eval()
    with torch.no_grad():
        print(net(torch.randn(3, 4)).square().mean())
