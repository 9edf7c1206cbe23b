"""What `backsight run` costs: the watch that it keeps on, over a training step, and an audit, of which it makes three.

    python bench/watching.py [--quick]

Steps without and with a watch, and audits, are run in turn. One thread, so that the ratio says what the hooks cost.
"""

from __future__ import annotations

import argparse

import torch
from _measure import Side, interleaved, report, simple_table
from torch import nn

import backsight as bs


def workloads() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    layers = [nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(6)]
    return {
        "MLP 50-50-1, batch 5": (nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1)), torch.randn(5, 50)),
        "encoder, 6 layers of 256, 8×64": (nn.Sequential(*layers), torch.randn(8, 64, 256)),
    }


def sides(model: nn.Module, x: torch.Tensor) -> dict[str, Side]:
    """A plain step of AdamW, a watched one, and the audit of a loss before its backward."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def forward() -> torch.Tensor:
        return model(x).square().mean()

    def step() -> None:
        loss = forward()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def watched() -> None:
        with bs.watch():
            step()

    step()
    return {
        "plain": Side(lambda: None, lambda _: step()),
        "watched": Side(lambda: None, lambda _: watched()),
        "audit": Side(forward, lambda loss: bs.audit(loss, model=model, optimizer=optimizer)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 10 if parser.parse_args().quick else 60
    torch.set_num_threads(1)
    table = simple_table(
        "training step", "modules", "plain, ms", "watched, ms", "ratio", "an audit, ms", title="A step under a watch"
    )
    for name, (model, x) in workloads().items():
        found = interleaved(sides(model, x), rounds)
        plain, under = found["plain"].seconds, found["watched"].seconds
        audit = f"{found['audit'].seconds * 1e3:.0f}"
        modules = sum(1 for _ in model.modules())
        table.add_row(name, str(modules), f"{plain * 1e3:.3f}", f"{under * 1e3:.3f}", f"{under / plain:.2f}", audit)
    report(table)


if __name__ == "__main__":
    main()
