"""The numbers of a run, a line each: how it went, what it is now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from backsight.runs import Run, Scalar, loss_names
from backsight.tables.sparkline import is_flattened, logarithms, sparkline
from backsight.tables.text import number
from backsight.text import printable, size

if TYPE_CHECKING:
    from backsight.text.rich import Table

FIRST = ("grad_norm", "update_ratio")
LAST = ("step_time", "memory", "device_memory_peak")

LINE = 512
"""Points that a line of characters is made of, at most."""

_LOG = "  log scale"

STARTING = 33
"""Steps in which `backsight run` looks closely, and PyTorch allocates: their time is not that of the others."""

NAMES = {
    "grad_norm": "gradient norm",
    "update_ratio": "update / weight",
    "step_time": "step time",
    "memory": "resident memory",
    "device_memory_peak": "device memory",
}


def told(run: Run) -> list[Scalar]:
    """Return the numbers that change, those that people look at first first."""
    found = run.scalars(columns=LINE)
    losses = loss_names(run, found)
    moving = [name for name, each in found.items() if len(each) and (name in losses or np.ptp(each.values) != 0)]
    ahead = [*losses, *FIRST]
    middle = [name for name in moving if name not in (*ahead, *LAST)]
    return [_settled(found[name]) for name in (*ahead, *middle, *LAST) if name in moving]


def _settled(scalar: Scalar) -> Scalar:
    """Return the time of a step without the first steps, which would flatten all others, if others are left."""
    late = scalar.steps >= STARTING
    if scalar.name != "step_time" or late.sum() < STARTING:
        return scalar
    return replace(scalar, steps=scalar.steps[late], values=scalar.values[late])


def spelt(scalar: Scalar, value: float) -> str:
    """Return a value with its unit."""
    if scalar.unit == "B":
        return size(int(value))
    if scalar.unit == "s":
        return f"{number(value * 1e3)} ms" if abs(value) < 1 else f"{number(value)} s"
    return number(value)


def label(scalar: Scalar) -> str:
    return NAMES.get(scalar.name, printable(scalar.name))


def lines(scalars: list[Scalar], width: int, latest: str) -> Table:
    """Return a table of numbers: the `latest`, the min and the max, and a line over the steps."""
    from backsight.text.rich import Table, Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    flattened = {each.name for each in scalars if is_flattened(_drawn(each))}
    room = max(10, width - 18 - 3 * 12 - len(_LOG) * bool(flattened))
    for heading, side in (("", "left"), (latest, "right"), ("min", "right"), ("max", "right")):
        grid.add_column(heading, justify=side, no_wrap=True, overflow="ellipsis", max_width=16)  # type: ignore[arg-type]  # one of rich's words
    starts = any(each.name == "step_time" and int(each.steps[0]) >= STARTING for each in scalars)
    grid.add_column(f"step time: from step {STARTING} on" if starts else "", no_wrap=True)
    for each in scalars:
        finite = each.values[np.isfinite(each.values)]
        ends = (spelt(each, finite.min()), spelt(each, finite.max())) if len(finite) else ("–", "–")
        now = each.values[-1]
        style = "" if np.isfinite(now) else "bold red"
        text = spelt(each, now) if np.isfinite(now) else str(now)
        is_log = each.name in flattened
        line = sparkline(logarithms(_drawn(each)) if is_log else _drawn(each), room)
        grid.add_row(
            label(each), Text(text, style), *ends, Text.assemble((line, "cyan"), (_LOG if is_log else "", "dim"))
        )
    return grid


def _drawn(scalar: Scalar) -> list[float]:
    """Return what the line is drawn of: a few long steps, as at a later look, are not to flatten the rest."""
    values = scalar.values
    if scalar.name == "step_time" and len(values) >= STARTING:
        values = np.minimum(values, np.quantile(values, 0.95))
    drawn: list[float] = values.tolist()
    return drawn
