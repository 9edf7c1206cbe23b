"""The forecast that docs/forecast.md shows: what training a decoder of 1.2 billion parameters will need."""

import torch
from torch import nn
from torch.nn import functional as F

import backsight as bs

VOCABULARY, WIDTH, HEADS, LAYERS, TOKENS = 32000, 2048, 16, 20, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        return self.head(self.blocks(self.token(tokens))).flatten(0, 1)


def batch():
    text = torch.randint(VOCABULARY, (1, TOKENS + 1))
    return text[:, :-1], text[:, 1:].flatten()


print(bs.forecast(GPT, batch, torch.optim.AdamW, loss=F.cross_entropy, device_memory="16GB"))
