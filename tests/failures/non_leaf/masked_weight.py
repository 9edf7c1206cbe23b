# code: BS206
# variable: sparse
# cause: sparse = [layer.weight * (torch.rand_like(layer.weight) > 0.5) for layer in layers]
# fix: leaves themselves
import torch
from torch import nn

layers = [nn.Linear(4, 4) for _ in range(2)]
sparse = [layer.weight * (torch.rand_like(layer.weight) > 0.5) for layer in layers]
optimizer = torch.optim.SGD(sparse, lr=0.1)
