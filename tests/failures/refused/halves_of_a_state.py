# code: BS200
# variable: part.detach_()
# cause: part.detach_()
# fix: write `halves = [part.detach() for part in halves]` instead of lines 16 to 17
import torch
from torch import nn

torch.manual_seed(0)
mix = nn.Linear(6, 6)
optimizer = torch.optim.SGD(mix.parameters(), lr=0.1)
halves = [torch.zeros(1, 3), torch.zeros(1, 3)]
for _ in range(3):
    halves = list((mix(torch.cat(halves, 1)) + 1).tanh().split(3, dim=1))
    (halves[0] * halves[1]).sum().backward()
    optimizer.step()
    for part in halves:
        part.detach_()
