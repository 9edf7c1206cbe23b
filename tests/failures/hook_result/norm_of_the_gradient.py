# code: BS225
# variable: hidden
# cause: hidden.register_hook(lambda grad: norms.append(grad.norm().item()) or grad.mean(0))
# fix: must have the same shape
import torch
from torch import nn

encoder, head = nn.Linear(6, 4), nn.Linear(4, 1)
norms = []
hidden = encoder(torch.randn(8, 6))
hidden.register_hook(lambda grad: norms.append(grad.norm().item()) or grad.mean(0))
loss = head(torch.relu(hidden)).mean()
loss.backward()
