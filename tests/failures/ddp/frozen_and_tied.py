# code: BS211
# variable: spare
# cause: def forward(self, x):
# fix: Use self.spare in forward, or remove
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.spare = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.body(x))


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
net = Net()
net.body.bias.requires_grad_(False)
net.tied = net.body
net.spare[0].bias.requires_grad_(False)
model = DistributedDataParallel(net)
try:
    for step in range(3):
        model(torch.randn(8, 4)).pow(2).mean().backward()
finally:
    dist.destroy_process_group()
