# code: BS201
# variable: blur.kernels
# cause: self.kernels[size] = kernel
# fix: remove lines 16 and 17
import torch
from torch import nn


class Blur(nn.Module):
    def __init__(self):
        super().__init__()
        self.width = nn.Parameter(torch.tensor(1.0))
        self.kernels = {}

    def kernel(self, size):
        if size in self.kernels:
            return self.kernels[size]
        at = torch.arange(size) - size // 2
        kernel = torch.softmax(-(at / self.width) ** 2, 0)
        self.kernels[size] = kernel
        return kernel

    def forward(self, x, size):
        return nn.functional.conv1d(x, self.kernel(size)[None, None])


torch.manual_seed(0)
blur = Blur()
optimizer = torch.optim.SGD(blur.parameters(), lr=0.1)
for _ in range(3):
    loss = blur(torch.randn(2, 1, 9), 3).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
