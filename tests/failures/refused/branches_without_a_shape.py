# code: BS200
# variable: model
# cause: model = DistributedDataParallel(model)
# fix: model.left.residual and model.right.residual have no shape, and no forward will give them one
# fix: or remove it from Branch
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Branch(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.inner = nn.LazyLinear(size)
        self.residual = nn.LazyLinear(size, bias=False)
        self.norm = nn.LazyBatchNorm1d()

    def forward(self, x):
        return self.norm(self.inner(x).relu())


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = Branch(6), Branch(5)
        self.score = nn.LazyLinear(1)

    def forward(self, one, other):
        return self.score(torch.cat([self.left(one), self.right(other)], dim=1))


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
try:
    model = Pair()
    one, other = torch.randn(8, 3), torch.randn(8, 4)
    with torch.no_grad():
        model(one, other)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(one, other).square().mean().backward()
        optimizer.step()
finally:
    dist.destroy_process_group()
