"""A GPT in sixty lines, as a list of stages: each takes the output of the one before."""

import torch
import torch.nn.functional as F
from torch import nn


class Embedding(nn.Module):
    def __init__(self, vocabulary, width, context):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)

    def forward(self, tokens):
        return self.token(tokens) + self.position.weight[: tokens.shape[1]]  # (batch, tokens, width)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # each (batch, heads, tokens, width / heads)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Head(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        return self.output(self.norm(x)).flatten(0, 1)  # (batch * tokens, vocabulary)


def gpt(vocabulary, width, layers, heads, context=256):
    """Return a GPT as a Sequential from tokens to logits."""
    blocks = [Block(width, heads) for _ in range(layers)]
    return nn.Sequential(Embedding(vocabulary, width, context), *blocks, Head(vocabulary, width))


def next_token_batch(vocabulary, batch, tokens):
    """Return random tokens, (batch, tokens), and the ones that follow them, (batch * tokens)."""
    text = torch.randint(vocabulary, (batch, tokens + 1))
    return text[:, :-1], text[:, 1:].flatten()
