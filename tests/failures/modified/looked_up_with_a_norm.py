# code: BS202
# variable: items.weight
# cause: items(history)
# fix: items.weight.clone()
import torch
from torch import nn

torch.manual_seed(0)
items = nn.Embedding(12, 4, max_norm=0.5)
history = torch.randint(12, (6, 3))
scores = torch.randn(6, 4, requires_grad=True) @ items.weight.t()
taste = items(history).mean(1)
(scores.square().mean() + taste.square().mean()).backward()
