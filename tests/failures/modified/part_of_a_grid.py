# code: BS202
# variable: grid | grid[0]
# cause: grid[0][1] = 7
# fix: Modify a copy: put grid =
import torch


def compute(x):
    grid = x * 2
    out = (grid**2).sum()
    grid[0][1] = 7
    return out


compute(torch.randn(2, 3, requires_grad=True)).backward()
