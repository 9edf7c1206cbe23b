# code: BS227
# variable: encoder.blocks.0
# cause: x = checkpoint(block, x, use_reentrant=True)
# fix: checkpoint(block, x, use_reentrant=False)
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Encoder(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.GELU()) for _ in range(depth)])
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        return self.head(x)


encoder = Encoder(2)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
encoder(torch.randn(4, 8)).pow(2).mean().backward()
optimizer.step()
