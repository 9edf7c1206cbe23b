# code: BS221
# variable: refine
# cause: state = state + checkpoint(self.refine, state, preserve_rng_state=False, use_reentrant=True)
# fix: use_reentrant=False
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint


class Iterative(nn.Module):
    def __init__(self, rounds=2):
        super().__init__()
        self.embed = nn.Linear(5, 8)
        self.refine = nn.Sequential(nn.Linear(8, 8), nn.GELU())
        self.rounds = rounds

    def forward(self, x):
        state = self.embed(x)
        for _ in range(self.rounds):
            state = state + checkpoint(self.refine, state, preserve_rng_state=False, use_reentrant=True)
        return state


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
try:
    model = DDP(Iterative())
    model(torch.randn(3, 5)).square().mean().backward()
finally:
    dist.destroy_process_group()
