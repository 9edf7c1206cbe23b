# code: BS226
# variable: first
# cause: part = trace[:, first:first + width]
# fix: trace[:, first + torch.arange(width)]
import torch
from torch import nn
from torch.func import vmap


def energy(trace, first, width=5):
    part = trace[:, first:first + width]
    return part.square().mean()


torch.manual_seed(0)
smooth = nn.Conv1d(2, 2, 3, padding=1)
optimizer = torch.optim.SGD(smooth.parameters(), lr=0.1)
for _ in range(2):
    traces, firsts = torch.randn(6, 2, 30), torch.randint(0, 25, (6,))
    loss = vmap(energy)(smooth(traces), firsts).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
