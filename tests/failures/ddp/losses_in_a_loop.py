# code: BS221
# variable: body
# cause: loss.backward(retain_graph=True)
# fix: sum((actor, critic)).backward()
"""An actor and a critic over one body, on several GPUs: backward for each loss of a loop."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.policy = nn.Linear(8, 3)
        self.value = nn.Linear(8, 1)

    def forward(self, x):
        h = self.body(x).relu()
        return self.policy(h), self.value(h)


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
try:
    model = DistributedDataParallel(TwoHeads())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        policy, value = model(torch.randn(5, 4))
        actor, critic = policy.square().mean(), (value - 1).square().mean()
        optimizer.zero_grad()
        for loss in (actor, critic):
            loss.backward(retain_graph=True)
        optimizer.step()
finally:
    dist.destroy_process_group()
