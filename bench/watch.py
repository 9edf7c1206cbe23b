"""What a watch costs, at each level, over a training step; beside it PyTorch's anomaly mode and DebugMode.

    python bench/watch.py [--quick]

Plain and watched runs take turns, in one thread, so that the ratio says what watching costs. "per operation" divides
the time that a forward pass takes longer by the nodes that it makes. At the exact level the first 20,000 calls are
looked at closer, and are a row of their own. Promised: at the level of lines at most 2 µs an operation and 1.10 of a
training step of a transformer of 6 layers, at the exact level at most 3 µs an operation.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from _measure import median, report, simple_table, verdict
from torch import nn
from torch.utils._debug_mode import DebugMode

import backsight as bs
from backsight.tape import next_sequence_number

Way = Callable[[], AbstractContextManager[object]]

WAYS: dict[str, Way] = {
    "plain": nullcontext,
    "calls": bs.watch,
    "lines": lambda: bs.watch(level="lines"),
    "exact": lambda: bs.watch(level="exact"),
    "exact, nonfinite": lambda: bs.watch(nonfinite=True),
    "anomaly mode": torch.autograd.detect_anomaly,
    "DebugMode": DebugMode,
}
WARM = 3
"""Runs before those that are timed: at the second step of an optimizer a watch samples its parameters."""

CLOSER = 20_000
"""Calls that are looked at closer at the exact level; see `_MOST_CALLS` in backsight/tracing/axes.py."""

PROMISED = {"lines": 2.0, "exact": 3.0}


class Block(nn.Module):
    """A transformer layer as people write it, in code of the program's own."""

    def __init__(self, width: int, heads: int = 6) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.inward(self.before(x)).chunk(3, -1)
        q, k, v = [part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts]
        attention = (q @ k.transpose(-1, -2) / (width / self.heads) ** 0.5).softmax(-1)
        x = x + self.outward((attention @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.between(x))))


def small_operations() -> Callable[[], torch.Tensor]:
    """Operations that take no time themselves, each on a line of its own."""
    weight, x = torch.randn(16, 16, requires_grad=True), torch.randn(4, 16)

    def forward() -> torch.Tensor:
        h = x
        for _ in range(50):
            h = h @ weight
            h = h + 1
            h = torch.tanh(h)
            h = h * 0.5
        return h

    return forward


def seconds(run: Callable[[], object], inner: int) -> float:
    start = time.perf_counter()
    for _ in range(inner):
        run()
    return (time.perf_counter() - start) / inner


def in_turn(
    run: Callable[[], object], ways: dict[str, Way], rounds: int, inner: int = 1, warm: int = WARM
) -> dict[str, list[float]]:
    """Return the seconds that `run` takes in each of the ways, by round."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            with way():
                for _ in range(warm):
                    run()
                times[name].append(seconds(run, inner))
    return times


def training(model: nn.Module, x: torch.Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def nodes_of(forward: Callable[[], object]) -> int:
    first = next_sequence_number()
    forward()
    return next_sequence_number() - first


def per_operation(rounds: int) -> None:
    model, x = nn.Sequential(*[Block(96) for _ in range(6)]), torch.randn(2, 16, 96)
    table = simple_table("forward pass, µs per operation", *list(WAYS)[1:], title="Added time per operation")
    kept: dict[str, float] = {}
    for name, forward, inner in (("small operations", small_operations(), 5), ("transformer", lambda: model(x), 2)):
        nodes = nodes_of(forward)
        for calls, warm in (("", CLOSER // nodes + WARM), (f", the first {CLOSER:,} calls", WARM)):
            times = in_turn(forward, WAYS, rounds, inner, warm)
            more = {w: statistics.median(t - p for t, p in zip(times[w], times["plain"], strict=True)) for w in times}
            table.add_row(f"{name}, {nodes} nodes{calls}", *[f"{more[w] / nodes * 1e6:.2f}" for w in list(WAYS)[1:]])
            kept = kept or {w: more[w] / nodes * 1e6 for w in PROMISED}
    report(table)
    for way, limit in PROMISED.items():
        report(verdict(kept[way] <= limit, f"{way}: {kept[way]:.2f} µs an operation, promised {limit:.0f}"))


def per_step(rounds: int) -> None:
    workloads = {
        "MLP 50-50-1, batch 5": (nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1)), torch.randn(5, 50)),
        "6 layers of 96, 2×16": (nn.Sequential(*[Block(96) for _ in range(6)]), torch.randn(2, 16, 96)),
        "6 layers of 384, 8×64": (nn.Sequential(*[Block(384) for _ in range(6)]), torch.randn(8, 64, 384)),
    }
    table = simple_table("training step", "plain, ms", *list(WAYS)[1:], title="Step time relative to plain")
    for name, (model, x) in workloads.items():
        step = training(model, x)
        big = "384" in name
        times = in_turn(step, WAYS, max(rounds // 2, 3) if big else rounds, 1 if big else 5)
        ratio = {w: median(t / p for t, p in zip(times[w], times["plain"], strict=True)) for w in list(WAYS)[1:]}
        plain = median(times["plain"])
        table.add_row(name, f"{plain * 1e3:.2f}", *[f"{ratio[w]:.2f}" for w in ratio])
        kept = ratio["lines"]
    report(table)
    report(verdict(kept <= 1.10, f"lines: {kept:.2f} of a step of the transformer, promised 1.10"))


def audits(rounds: int) -> None:
    """What an audit takes, of which `backsight run` makes three for each backward in the program."""
    model, x = nn.Sequential(*[Block(96) for _ in range(6)]), torch.randn(2, 16, 96)
    optimizer = torch.optim.AdamW(model.parameters())
    losses = (model(x).mean() for _ in range(rounds))
    took = [seconds(lambda loss=loss: bs.audit(loss, model=model, optimizer=optimizer), 1) for loss in losses]
    report(f"an audit of 6 layers of 96: {median(took) * 1e3:.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 5 if parser.parse_args().quick else 21
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    report(f"Python {platform.python_version()}, torch {torch.__version__}")
    per_operation(rounds)
    per_step(rounds)
    audits(rounds)


if __name__ == "__main__":
    main()
