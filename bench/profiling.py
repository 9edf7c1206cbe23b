"""What a profile costs: a training step inside of `backsight.profile` and of PyTorch's profiler, over the bare step.

    python bench/profiling.py [--quick]

All sides in turn, five steps in each block. The ratios are of the steps alone, which is what a profile disturbs; "begin
and end" is what the block takes besides, for finding names and adding up times. One thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from _measure import Side, interleaved, report, simple_table
from torch import nn

import backsight as bs

STEPS = 5


def workloads() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    def encoder(width: int, layers: int) -> nn.Module:
        return nn.Sequential(
            *(nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True) for _ in range(layers))
        )

    return {
        "MLP 50-50-1, batch 5": (nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1)), torch.randn(5, 50)),
        "encoder, 6 layers of 128, 4×32": (encoder(128, 6), torch.randn(4, 32, 128)),
        "encoder, 6 layers of 256, 8×64": (encoder(256, 6), torch.randn(8, 64, 256)),
    }


def sides(model: nn.Module, x: torch.Tensor) -> dict[str, Side]:
    """The bare steps, the steps under both profilers, and a whole block of ours."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def train() -> None:
        for _ in range(STEPS):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    def within(profiler: Callable[[], AbstractContextManager[Any]]) -> None:
        with profiler():
            train()

    def inside(profiler: Callable[[], AbstractContextManager[Any]]) -> Side:
        def begin() -> AbstractContextManager[Any]:
            block = profiler()
            block.__enter__()
            return block

        def run(block: AbstractContextManager[Any]) -> AbstractContextManager[Any]:
            train()
            return block

        return Side(begin, run, lambda block: str(block.__exit__(None, None, None) or ""))

    train()
    within(bs.profile)  # the first use of PyTorch's profiler loads it
    return {
        "bare": Side(lambda: None, lambda _: train()),
        "torch": inside(torch.profiler.profile),
        "ours": inside(bs.profile),
        "block": Side(lambda: None, lambda _: within(bs.profile)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 6 if parser.parse_args().quick else 20
    torch.set_num_threads(1)
    table = simple_table(
        "training step",
        "bare, ms",
        "torch.profiler",
        "backsight",
        "begin and end, ms",
        title="Steps under a profiler, relative to a bare step",
    )
    for name, (model, x) in workloads().items():
        found = interleaved(sides(model, x), rounds)
        bare, torchs, ours, block = (found[side].seconds for side in ("bare", "torch", "ours", "block"))
        table.add_row(
            name,
            f"{bare / STEPS * 1e3:.2f}",
            f"{torchs / bare:.2f}",
            f"{ours / bare:.2f}",
            f"{(block - ours) * 1e3:.0f}",
        )
    report(table)


if __name__ == "__main__":
    main()
