# code: BS211
# variable: experts
# cause: h = h + expert(h)
# fix: find_unused_parameters
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Mixture(nn.Module):
    """Each batch goes to one expert."""

    def __init__(self, width, experts):
        super().__init__()
        self.embed = nn.Linear(4, width)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))
        self.out = nn.Linear(width, 1)

    def forward(self, x, domain):
        h = torch.relu(self.embed(x))
        for number, expert in enumerate(self.experts):
            if number == domain:
                h = h + expert(h)
        return self.out(h)


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
try:
    model = DistributedDataParallel(Mixture(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for domain in (0, 1, 2):
        loss = model(torch.randn(4, 4), domain).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
finally:
    dist.destroy_process_group()
