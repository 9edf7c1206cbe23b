# code: BS201
# variable: past | block.past | self.past
# cause: self.past.append((k, v))
# fix: detach
import torch
import torch.nn.functional as F
from torch import nn


class CachedAttention(nn.Module):
    """Attends to the segments before, as Transformer-XL does."""

    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.past = []

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        keys = torch.cat([*(key for key, _ in self.past), k], dim=1)
        values = torch.cat([*(value for _, value in self.past), v], dim=1)
        self.past.append((k, v))
        weights = torch.softmax(q @ keys.transpose(1, 2) / k.shape[-1] ** 0.5, dim=-1)
        return weights @ values


block, head = CachedAttention(8), nn.Linear(8, 5)
optimizer = torch.optim.AdamW([*block.parameters(), *head.parameters()], lr=1e-3)
text = torch.randint(0, 5, (2, 24))
embedding = F.one_hot(text, 8).float()
for start in range(0, 24, 8):
    segment = embedding[:, start : start + 8]
    loss = F.cross_entropy(head(block(segment)).transpose(1, 2), text[:, start : start + 8])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
