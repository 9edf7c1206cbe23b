"""DistributedDataParallel around a model with a head that the loss never reaches.

What is wrong: DDP waits for a gradient of every parameter. `auxiliary` gets none, so the reduction of the first
               step never finishes, and the second forward pass notices.
PyTorch says:  Expected to have finished reduction in the prior iteration before starting a new one
Fix:          use the auxiliary output in the loss, or remove that head. `find_unused_parameters=True` silences the
               error too, but the head still gets no gradient, and every step pays for a search of the graph.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(16, 32)
        self.decoder = nn.Linear(32, 4)
        self.auxiliary = nn.Linear(32, 4)

    def forward(self, x):
        features = F.relu(self.encoder(x))
        return self.decoder(features), self.auxiliary(features)


def main():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(0)
    model = DistributedDataParallel(Segmenter())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        logits, auxiliary_logits = model(torch.randn(8, 16))
        loss = F.cross_entropy(logits, torch.randint(0, 4, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


main()
