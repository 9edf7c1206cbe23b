"""Small training steps of many kinds, and their true peak: the sum of what the CPU allocator reports."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from backsight.memory import StepMemory
from backsight.memory.curves import by_kind


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, width=128, depth=3, heads=4, words=1000, checkpointed=False) -> None:
        super().__init__()
        self.emb = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.checkpointed = checkpointed

    def forward(self, words, target):
        x = self.emb(words)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())


class MLP(nn.Module):
    def __init__(self, *widths: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))

    def forward(self, x, y):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return F.mse_loss(self.layers[-1](x), y)


class CNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(4)),
        )
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


@dataclass
class Case:
    """A model, what it is called with, and its optimizer."""

    model: nn.Module
    batch: Any
    optimizer: Callable[..., torch.optim.Optimizer]
    loss: Callable[..., Any] | None = None
    autocast: torch.dtype | None = None


def words(batch: int = 4, tokens: int = 64, vocabulary: int = 1000) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.randint(0, vocabulary, (batch, tokens + 1))
    return drawn[:, :-1], drawn[:, 1:]


def peak_of(step: Callable[[], Any], held: Iterable[torch.Tensor]) -> int:
    """Return the most bytes of a step by the allocator's own reports, with those of the tensors that are there before.

    `held` is asked for after a first step, when the optimizer has its state.
    """
    step()
    before = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes() for tensor in held}
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        step()
    now = peak = 0
    reports = (event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]")
    for event in sorted(reports, key=lambda each: each.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return sum(before.values()) + peak


def mlp() -> tuple[MLP, tuple[torch.Tensor, torch.Tensor]]:
    """A model and its batch."""
    return MLP(64, 64, 64), (torch.randn(8, 64), torch.randn(8, 64))


def training(**options):
    """A model, an optimizer with these options, a batch, and a function that makes a step."""
    torch.manual_seed(0)
    model, batch = MLP(64, 256, 256, 1), (torch.randn(32, 64), torch.randn(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), **options)

    def step():
        model(*batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, optimizer, batch, step


def most(measured: StepMemory, kind: str) -> int:
    """Return the most bytes of a kind at one time."""
    return int(by_kind(measured.history)[kind].max())
