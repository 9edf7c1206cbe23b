"""Runs drawn with matplotlib: for papers, and for notebooks that show no pages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from backsight.runs import Run
from backsight.viewer.order import places

LABEL = 8
"""Points that the name of a row takes; where rows are lower, only some of them are named."""

NOT_FINITE, ZERO = (0.9, 0, 0.49, 1), (0.66, 0.69, 0.73, 1)
"""The colours of what has none on the scale."""

_EVEN = ("zero_fraction", "mean", "min", "max")
"""Statistics that are drawn on an even scale; all others by their logarithm."""

_TITLES = {"l2": "norm", "zero_fraction": "share of zeros", "absmax": "largest magnitude"}


def plot(run: Run, tensor: str, stat: str, *, kind: str | None = None, steps: Any = None, ax: Any = None) -> Any:
    """See `Run.plot`."""
    series = run.series(tensor, stat, kind=kind, steps=steps)
    ax = ax or _axes(8, 3)
    ax.plot(series.steps, series.values, linewidth=1.2, color="#1666a8")
    positive = np.isfinite(series.values) & (series.values > 0)
    if series.stat not in _EVEN and positive.all() and len(series):
        ax.set_yscale("log")
    name = _TITLES.get(series.stat, series.stat)
    ax.set(title=f"{tensor} ({series.kind})", xlabel="step", ylabel=name)
    ax.grid(alpha=0.25)
    if series.missing:
        ax.annotate(f"{series.missing:,} steps are not finite", (0.99, 0.95), xycoords="axes fraction", ha="right")
    return ax


def plot_heatmap(run: Run, stat: str = "norm", kind: str = "grad", *, steps: Any = None, ax: Any = None) -> Any:
    """See `Run.plot_heatmap`."""
    found = run.heatmap(stat, kind, steps=steps, columns=800)
    order = places(run, kind)
    rows = sorted(range(len(found.tensors)), key=lambda row: order.get(found.tensors[row][0], len(order)))
    values, bad = found.values[rows], found.nonfinite[rows] > 0
    ax = ax or _axes(10, max(2.5, min(0.2 * len(rows), 14) + 1))
    colors, norm = _scale(values, "l2" if stat == "norm" else stat)
    zero = (values == 0) & ~bad & (stat not in _EVEN)
    # A norm may be beyond what a float holds, and is more than all others.
    shown = np.ma.masked_where(np.isnan(values) | bad | zero, np.clip(values, norm.vmin, norm.vmax))
    last = int(found.steps[-1]) + found.stretch if len(found.steps) else 1
    first = int(found.steps[0]) if len(found.steps) else 0
    extent = (first, last, len(rows), 0)
    image = ax.imshow(shown, aspect="auto", interpolation="nearest", extent=extent, cmap=colors, norm=norm)
    if bad.any() or zero.any():
        marks = np.zeros((*bad.shape, 4))
        marks[bad], marks[zero] = NOT_FINITE, ZERO
        ax.imshow(marks, aspect="auto", interpolation="nearest", extent=extent)
    stride = math.ceil(LABEL * len(rows) / (72 * ax.bbox.height / ax.figure.dpi)) if rows else 1
    named = range(0, len(rows), stride)
    ax.set_yticks([row + 0.5 for row in named], [found.tensors[rows[row]][0] for row in named], fontsize=7)
    told = (", NaN and infinity in magenta" if bad.any() else "") + (", exact zeros in gray" if zero.any() else "")
    title = f"{_TITLES.get(stat, stat)} of {kind}{told}"
    ax.set(title=title, xlabel="step")
    ax.figure.colorbar(image, ax=ax, pad=0.01, fraction=0.03, aspect=40)
    return ax


def _scale(values: Any, stat: str) -> tuple[str, Any]:
    """Return the colours and the scale: two-sided around zero, even, or by the logarithm."""
    from matplotlib.colors import LogNorm, Normalize, TwoSlopeNorm

    finite = values[np.isfinite(values)]
    if not len(finite):
        return "viridis", Normalize()
    if stat in _EVEN and finite.min() < 0:
        most = float(np.abs(finite).max())
        return "RdBu_r", TwoSlopeNorm(0, -most, most)
    positive = finite[finite > 0]
    if stat in _EVEN or not len(positive):
        return "viridis", Normalize(min(0.0, float(finite.min())), float(finite.max()) or 1.0)
    low, high = np.quantile(positive, [0.005, 0.995])
    return "viridis", LogNorm(float(low), float(max(high, low * 1.001)), clip=True)


def _axes(width: float, height: float) -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError('Plotting needs matplotlib: pip install "backsight[plot]".') from error
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
