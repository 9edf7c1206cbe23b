"""What it costs to measure the memory of a step: a training step inside of `backsight.measure_memory`, and bare.

    python bench/measuring.py [--quick]

Both sides in turn, one step in each block. "measured" is of the step alone, which is what the measurement disturbs;
the search for the variables that hold the largest tensors is in it. "begin and end" is what the block takes besides,
for finding all tensors and reading the allocator's reports. One thread.
"""

from __future__ import annotations

import argparse
import time

import torch
from _measure import Side, interleaved, report, simple_table
from torch import nn

import backsight as bs


def workloads() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    def encoder(width: int, layers: int) -> nn.Module:
        return nn.Sequential(
            *(nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True) for _ in range(layers))
        )

    return {
        "MLP 50-50-1, batch 5": (nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1)), torch.randn(5, 50)),
        "100 layers of 256×256, batch 32": (
            nn.Sequential(*(nn.Linear(256, 256) for _ in range(100))),
            torch.randn(32, 256),
        ),
        "encoder, 6 layers of 384, 4×128": (encoder(384, 6), torch.randn(4, 128, 384)),
    }


def sides(model: nn.Module, x: torch.Tensor) -> dict[str, Side]:
    """The bare step, the step while it is measured, and the whole block."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    within: list[float] = []

    def train() -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    def block() -> None:
        with bs.measure_memory(model, optimizer):
            began = time.perf_counter()
            train()
            within.append(time.perf_counter() - began)

    train()
    block()  # the first use of PyTorch's profiler loads it
    return {
        "bare": Side(lambda: None, lambda _: train()),
        "block": Side(lambda: None, lambda _: block(), lambda _: f"{within[-1]}"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 5 if parser.parse_args().quick else 15
    torch.set_num_threads(1)
    table = simple_table(
        "training step",
        "bare, ms",
        "measured, ms",
        "begin and end, ms",
        title="A step while its memory is measured",
    )
    for name, (model, x) in workloads().items():
        found = interleaved(sides(model, x), rounds)
        bare, measured = found["bare"].seconds * 1e3, float(found["block"].note) * 1e3
        table.add_row(name, f"{bare:.2f}", f"{measured:.1f}", f"{found['block'].seconds * 1e3 - measured:.0f}")
    report(table)


if __name__ == "__main__":
    main()
