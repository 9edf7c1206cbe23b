# code: BS216
# variable: hidden
# cause: saliency = hidden.grad
# fix: retain_grad
import torch
from torch import nn

first, second = nn.Linear(4, 8), nn.Linear(8, 1)
x = torch.randn(3, 4)
hidden = torch.relu(first(x))
second(hidden).sum().backward()
saliency = hidden.grad
