"""The measurement that docs/memory.md shows: the memory of a step of a small GPT."""

import torch
from torch import nn
from torch.nn import functional as F

import backsight as bs

VOCABULARY, WIDTH, HEADS, TOKENS = 8000, 128, 4, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        normed = self.norm1(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(4)))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        return self.head(self.blocks(self.token(tokens)))


torch.manual_seed(0)
torch.set_num_threads(1)
text = torch.randint(VOCABULARY, (8, TOKENS + 1))
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)


def step():
    logits = model(text[:, :-1])
    F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()


step()  # the first step makes the optimizer's state
m = bs.measure_memory(step)
print(m.table(rows=7, width=80))
