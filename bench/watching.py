"""What a training step costs more under `backsight.watch()`, which is what `backsight run` keeps on after its audits.

    python bench/watching.py [--quick]

Steps without and with a watch are run in turn. One thread, so that the ratio says what the hooks cost.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from _measure import Side, interleaved, report, simple_table
from torch import nn

import backsight as bs

Step = Callable[[], None]


def training(model: nn.Module, x: torch.Tensor) -> Step:
    """A step of AdamW on a stand-in loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> None:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def workloads() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    layers = [nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(6)]
    return {
        "MLP 50-50-1, batch 5": (nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1)), torch.randn(5, 50)),
        "encoder, 6 layers of 256, 8×64": (nn.Sequential(*layers), torch.randn(8, 64, 256)),
    }


def watched(step: Step) -> None:
    with bs.watch():
        step()


def sides(step: Step) -> dict[str, Side]:
    return {"plain": Side(lambda: None, lambda _: step()), "watched": Side(lambda: None, lambda _: watched(step))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 10 if parser.parse_args().quick else 60
    torch.set_num_threads(1)
    table = simple_table("training step", "modules", "plain, ms", "watched, ms", "ratio", title="A step under a watch")
    for name, (model, x) in workloads().items():
        step = training(model, x)
        step()
        found = interleaved(sides(step), rounds)
        plain, under = found["plain"].seconds, found["watched"].seconds
        modules = sum(1 for _ in model.modules())
        table.add_row(name, str(modules), f"{plain * 1e3:.3f}", f"{under * 1e3:.3f}", f"{under / plain:.2f}")
    report(table)


if __name__ == "__main__":
    main()
