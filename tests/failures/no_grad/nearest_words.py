# code: BS203
# variable: loss
# cause: nearest = (states @ table.weight.T).argmax(-1)
# fix: table.weight
import torch
from torch import nn

table = nn.Embedding(7, 4).requires_grad_(False)
encoder = nn.Linear(3, 4)
targets = torch.randn(5, 4)
states = encoder(torch.randn(5, 3))
nearest = (states @ table.weight.T).argmax(-1)
loss = (table(nearest) - targets).square().mean()
loss.backward()
