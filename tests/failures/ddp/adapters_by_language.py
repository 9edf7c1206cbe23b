# code: BS211
# variable: adapters.fr
# cause: h = h + self.adapters[lang](h)
# fix: find_unused_parameters=True
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Translator(nn.Module):
    def __init__(self, languages):
        super().__init__()
        self.embed = nn.Linear(6, 12)
        self.adapters = nn.ModuleDict({each: nn.Linear(12, 12) for each in languages})
        self.out = nn.Linear(12, 3)

    def forward(self, x, lang):
        h = self.embed(x).tanh()
        h = h + self.adapters[lang](h)
        return self.out(h)


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
try:
    model = DistributedDataParallel(Translator(("de", "fr")))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(4):
        lang = "de" if step % 2 == 0 else "fr"
        loss = model(torch.randn(8, 6), lang).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
finally:
    dist.destroy_process_group()
