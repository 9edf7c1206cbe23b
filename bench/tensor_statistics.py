"""What the statistics of one tensor cost, beside naive ones and beside reading its memory once.

    python bench/tensor_statistics.py

All sides are measured in turn, round by round; the median is shown, in microseconds. The last lines are about lists of
small tensors, where the time is the calls and not the memory.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator

import torch
from _measure import Side, interleaved, report, simple_table

from backsight.recording.statistics import measure, native

ROUNDS = 11
SIZES = (1_000, 100_000, 10_000_000)


def four_naive(x: torch.Tensor) -> tuple[float, ...]:
    """What most hooks write down."""
    return x.mean().item(), x.std().item(), x.min().item(), x.max().item()


def ten_naive(x: torch.Tensor) -> tuple[object, ...]:
    """What `measure` finds, one operation after the other."""
    finite = x[x.isfinite()]
    magnitude = finite.abs()
    return (
        finite.mean().item(),
        finite.std().item(),
        finite.min().item(),
        finite.max().item(),
        magnitude.max().item(),
        finite.norm().item(),
        (x == 0).sum().item(),
        x.isnan().sum().item(),
        x.isinf().sum().item(),
        magnitude[magnitude > 0].log2().histc(64, -48, 16),
    )


@contextlib.contextmanager
def without_kernel() -> Iterator[None]:
    kernel = native.kernel
    native.kernel = None
    native.available.cache_clear()
    try:
        yield
    finally:
        native.kernel = kernel
        native.available.cache_clear()


def plain(x: torch.Tensor) -> object:
    """`measure` where there was no compiler."""
    with without_kernel():
        return measure([x])


def times(x: torch.Tensor) -> dict[str, float]:
    """The microseconds that each side takes on a tensor."""
    repeats = max(1, 5_000_000 // x.numel())

    def side(function: Callable[[torch.Tensor], object]) -> Side:
        def run(_: object) -> None:
            for _ in range(repeats):
                function(x)

        return Side(lambda: None, run)

    sides = {
        "4 naive": side(four_naive),
        "10 naive": side(ten_naive),
        "PyTorch path": side(plain),
        "measure": side(lambda x: measure([x], histogram=False)),
        "+ histogram": side(lambda x: measure([x])),
        "read once": side(torch.sum),
    }
    return {name: found.seconds / repeats * 1e6 for name, found in interleaved(sides, ROUNDS).items()}


def lists() -> None:
    torch.set_num_threads(1)
    few, many = [torch.randn(64)], [torch.randn(64) for _ in range(200)]
    sides = {
        "a list of 1 tensor of 64 elements": Side(lambda: None, lambda _: [measure(few) for _ in range(1000)]),
        "a list of 200 tensors of 64 elements": Side(lambda: None, lambda _: [measure(many) for _ in range(1000)]),
    }
    for name, found in interleaved(sides, ROUNDS).items():
        report(f"{name}: {found.seconds * 1e3:.1f} µs")


def main() -> None:
    warnings.simplefilter("ignore")  # the side without the kernel would say so
    torch.manual_seed(0)
    level = native.kernel.level() if native.kernel else "none"
    columns = ("4 naive", "10 naive", "PyTorch path", "measure", "+ histogram", "read once")
    title = f"Microseconds, float32, median of {ROUNDS} rounds; kernel: {level}"
    table = simple_table("elements", "threads", *columns, "of the read speed", title=title)
    for threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(threads)
        for size in SIZES:
            found = times(torch.randn(size))
            share = found["read once"] / found["+ histogram"]
            table.add_row(f"{size:,}", str(threads), *(f"{found[name]:,.1f}" for name in columns), f"{share:.0%}")
    report(table)
    lists()


if __name__ == "__main__":
    main()
