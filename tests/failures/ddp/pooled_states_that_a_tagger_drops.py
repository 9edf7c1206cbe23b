# code: BS211
# variable: encoder.pooler
# cause: states, _ = self.encoder(x)
# fix: Use result 2 of self.encoder
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(6, 12, batch_first=True)
        self.pooler = nn.Linear(12, 12)

    def forward(self, x):
        states, last = self.rnn(x)
        pooled = torch.tanh(self.pooler(states.mean(1)))
        return states, pooled


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.out = nn.Linear(12, 3)

    def forward(self, x):
        states, _ = self.encoder(x)
        return self.out(states)


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
try:
    model = DistributedDataParallel(Tagger())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        x, tags = torch.randn(8, 5, 6), torch.randint(3, (8, 5))
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), tags.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
finally:
    dist.destroy_process_group()
