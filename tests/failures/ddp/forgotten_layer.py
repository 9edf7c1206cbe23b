# code: BS211
# variable: norm_final
# cause: def forward(self, x):
# fix: norm_final
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.norm_final = nn.LayerNorm(width)
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return self.head(x)


def train(rank, world):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=rank, world_size=world)
    try:
        ddp = DDP(Net())
        optimizer = torch.optim.AdamW(ddp.parameters())
        for _ in range(2):
            loss = nn.functional.cross_entropy(ddp(torch.randn(3, 8)), torch.tensor([0, 1, 1]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    finally:
        dist.destroy_process_group()


train(0, 1)
