"""Adapting a small pretrained transformer to a new task with low-rank adapters."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

V, T, D, HEADS = 24, 12, 32, 4


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h = heads
        self.query, self.key = nn.Linear(d, d), nn.Linear(d, d)
        self.value, self.proj = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.h, d // self.h).transpose(1, 2)
                   for f in (self.query, self.key, self.value))
        a = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(d // self.h), dim=-1)
        return self.proj((a @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = Attention(d, heads)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Encoder(nn.Module):
    def __init__(self, n_out):
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Parameter(0.1 * torch.randn(T, D))
        self.blocks = nn.ModuleList(Block(D, HEADS) for _ in range(2))
        self.classifier = nn.Linear(D, n_out)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.classifier(x[:, 0])


class LowRankLinear(nn.Module):
    def __init__(self, base, rank=8, alpha=16):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * self.up(self.down(x))


def inject(model, rank=8):
    for block in model.blocks:
        for name in ("query", "key", "value", "proj"):
            setattr(block.attn, name, LowRankLinear(getattr(block.attn, name), rank))


def mark_trainable(model, keywords=("lora_", "classifier")):
    for name, p in model.named_parameters():
        p.requires_grad = any(k in name for k in keywords)


def batch(task, n=64):
    ids = torch.randint(2, 16, (n, T))
    ids[:, 0] = 0
    if task == "count":
        y = (ids[:, 1:] < 9).sum(1).gt(5).long()
    else:
        y = torch.randint(0, 4, (n,))
        rows, spots = torch.arange(n), torch.rand(n, T - 1).argsort(1) + 1
        ids[rows, spots[:, 0]] = 16 + y // 2
        ids[rows, spots[:, 1]] = 18 + (y + y // 2) % 2
    return ids, y


def train(model, task, steps, lr):
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=lr, weight_decay=0.0)
    for step in range(steps):
        ids, y = batch(task)
        loss = F.cross_entropy(model(ids), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 40 == 39:
            with torch.no_grad():
                ids, y = batch(task, 500)
                acc = (model(ids).argmax(1) == y).float().mean().item()
            print(f"{task:>6} step {step + 1:3d} loss {loss.item():.3f} acc {acc:.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Encoder(n_out=2)
    train(model, "count", steps=80, lr=3e-3)
    model.classifier = nn.Linear(D, 4)
    inject(model)
    mark_trainable(model)
    train(model, "lookup", steps=160, lr=6e-3)
