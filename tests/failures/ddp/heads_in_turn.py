# code: BS211
# variable: value
# cause: return self.value(h)
# fix: find_unused_parameters
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

    def forward(self, x, head):
        h = self.body(x).relu()
        if head == "policy":
            return self.policy(h)
        return self.value(h)


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
try:
    model = DistributedDataParallel(TwoHeads())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for head in ("policy", "value", "policy", "value"):
        loss = model(torch.randn(4, 4), head).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
finally:
    dist.destroy_process_group()
