"""What it costs to look for births of NaN, beside anomaly mode.

    python bench/nonfinite.py [--quick]

A training step of an encoder, in turn plain, under the exact watch, under the watch for births, and under
`torch.autograd.detect_anomaly()`, with and without its look at values. One thread.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from _measure import Side, interleaved, report, simple_table, verdict
from torch import nn

import backsight as bs

WAYS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "plain": nullcontext,
    "watch(level='exact')": lambda: bs.watch(level="exact"),
    "watch(nonfinite=True)": lambda: bs.watch(nonfinite=True),
    "detect_anomaly(check_nan=False)": lambda: torch.autograd.detect_anomaly(check_nan=False),
    "detect_anomaly()": torch.autograd.detect_anomaly,
}


def workloads() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    def encoder(layers: int, width: int, heads: int) -> nn.Module:
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, dropout=0.0)
        return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    return {
        "12 layers of 64, 4×32": (encoder(12, 64, 4), torch.randn(4, 32, 64)),
        "6 layers of 384, 4×64": (encoder(6, 384, 6), torch.randn(4, 64, 384)),
    }


def sides(model: nn.Module, x: torch.Tensor) -> dict[str, Side]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(way: Callable[[], AbstractContextManager[object]]) -> None:
        with way():
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()

    step(nullcontext)
    return {name: Side(lambda: None, lambda _, way=way: step(way)) for name, way in WAYS.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 5 if parser.parse_args().quick else 25
    warnings.filterwarnings("ignore", message="Anomaly Detection has been enabled")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    table = simple_table(
        "a training step", *workloads(), title="Tracing NaN origins: milliseconds, and relative to plain"
    )
    found = {name: interleaved(sides(model, x), rounds) for name, (model, x) in workloads().items()}
    for way in WAYS:
        cells = [
            f"{each[way].seconds * 1e3:.1f}  {each[way].seconds / each['plain'].seconds:.2f}x"
            for each in found.values()
        ]
        table.add_row(way, *cells)
    cheaper = all(each["watch(nonfinite=True)"].seconds < each["detect_anomaly()"].seconds for each in found.values())
    report(table, verdict(cheaper, "cheaper than anomaly mode"))


if __name__ == "__main__":
    main()
