# code: BS210
# variable: layers.1
# cause: memory["keys"] = keys.detach()
# fix: dict(memory)
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ask, self.key, self.out = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x, memory, scale):
        keys = self.key(x)
        if "keys" in memory:
            keys = torch.cat([memory["keys"], keys], dim=1)
        memory["keys"] = keys.detach()
        weights = torch.softmax(self.ask(x) @ keys.transpose(1, 2) * scale, dim=-1)
        return self.out(weights @ keys)


layers = nn.ModuleList(Attention(8) for _ in range(2))
optimizer = torch.optim.Adam(layers.parameters(), lr=1e-3)
for _ in range(2):
    memories = [{} for _ in layers]
    for piece in torch.randn(2, 6, 8).split(3, dim=1):
        h = piece
        for layer, its in zip(layers, memories):
            h = h + checkpoint(layer, h, its, 0.3, use_reentrant=False)
        optimizer.zero_grad()
        (h - piece.roll(1, 1)).pow(2).mean().backward()
        optimizer.step()
