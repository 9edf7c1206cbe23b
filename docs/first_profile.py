"""The profiles that docs/profiling.md shows: a step of a small GPT, plain and with checkpoints."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import backsight as bs

VOCABULARY, WIDTH, HEADS, TOKENS = 2000, 192, 6, 64


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        query, key, value = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, checkpointed=False):
        super().__init__()
        self.checkpointed = checkpointed
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.token(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(x)


def step(model, optimizer, text):
    loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


torch.manual_seed(0)
torch.set_num_threads(1)
text = torch.randint(VOCABULARY, (8, TOKENS + 1))
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
step(model, optimizer, text)  # the first step also prepares what later ones reuse

with bs.profile() as p:
    step(model, optimizer, text)
print(p.table(limit=12))
print("\nthe gradients that take longest to be accumulated")
for row in [row for row in p.rows if row.kind == "leaf"][:3]:
    print(f"{row.backward * 1e6:6.1f} µs  {', '.join(row.parameters)}")
print("\np.by_op()")
print(p.by_op().table(limit=5))
print("\np.by_module(depth=2)")
print(p.by_module(depth=2))

model.checkpointed = True
with bs.profile() as p:
    step(model, optimizer, text)
print("\nwith checkpointed blocks, p.by_module(depth=2)")
print(p.by_module(depth=2))
