# code: BS219
# variable: prompt
# cause: prompt.requires_grad_(False)
# fix: prompt = prompt.detach()
import torch
from torch import nn

encoder, head = nn.Linear(4, 8), nn.Linear(8, 2)
optimizer = torch.optim.Adam(head.parameters())
prompt = encoder(torch.randn(3, 4))
prompt.requires_grad_(False)
loss = head(prompt).sum()
loss.backward()
optimizer.step()
