"""Small models, and training loops that are run with and without release."""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.nn import functional

import backsight.gradient_release as gradient_release

INFINITE = float("inf")


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (2, -1)).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(x)))


class Gpt(nn.Module):
    """A language model of 300 KB, some of its parameters larger and most smaller than a bucket of 64 KB."""

    def __init__(self, width=48, tokens=97, blocks=2):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.head = nn.Linear(width, tokens, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def gpt():
    torch.manual_seed(0)
    return Gpt()


def mlp(*widths, seed=0):
    """Return a small network whose layers have these widths."""
    torch.manual_seed(seed)
    layers = [nn.Linear(one, other) for one, other in itertools.pairwise(widths)]
    return nn.Sequential(*(part for layer in layers for part in (layer, nn.Tanh())))


def tokens(step):
    return torch.randint(0, 97, (2, 17), generator=torch.Generator().manual_seed(step))


def loss_of(model, step):
    batch = tokens(step)
    return functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def decayed(model):
    """Return two groups, matrices and the rest, as most trainings have."""
    matrices = [each for each in model.parameters() if each.dim() > 1]
    others = [each for each in model.parameters() if each.dim() <= 1]
    return [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]


def square(model, step=0, *, rows=4, scale=1.0):
    """Return the loss of a network on data that belong to a step."""
    width = next(model.parameters()).shape[1]
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(1000 + step))
    return scale * model(x).square().mean()


def train(model, optimizer, steps=3, *, bucket=None, loss=square, scheduler=None, zero=None):
    """Take ordinary training steps, released if there is a bucket; return the release."""
    release = None if bucket is None else gradient_release.release(optimizer, bucket)
    for step in range(steps):
        loss(model, step).backward()
        optimizer.step()
        optimizer.zero_grad() if zero is None else zero(optimizer)
        if scheduler is not None:
            scheduler.step()
    return release


def assert_same(one, other):
    """Assert that two trainings, (model, optimizer) each, have come to the same bits."""
    (model, optimizer), (other_model, other_optimizer) = one, other
    for (name, weight), expected in zip(model.named_parameters(), other_model.parameters(), strict=True):
        assert torch.equal(weight, expected), name
    stored, expected = optimizer.state_dict(), other_optimizer.state_dict()
    assert stored["param_groups"] == expected["param_groups"]
    assert list(stored["state"]) == list(expected["state"])
    for number, entries in expected["state"].items():
        assert list(stored["state"][number]) == list(entries)
        for key, value in entries.items():
            found = stored["state"][number][key]
            same = torch.equal(found, value) if isinstance(value, torch.Tensor) else found == value
            assert same, (number, key)
