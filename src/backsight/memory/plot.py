"""A step's memory as a picture: bytes by kind over time, stacked, with the phases and the peak named."""

from __future__ import annotations

import math
import os
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from backsight.memory.colors import LIGHT
from backsight.memory.curves import by_kind, highest, passes, seconds
from backsight.text import amount

if TYPE_CHECKING:
    from backsight.memory.ledger import History
    from backsight.memory.timeline import StepMemory

COLUMNS = 700
"""Parts of the step's time that are drawn, each with its most bytes: two pixels each."""

_INK, _FAINT, _EDGE = "#1f2430", "#6b7280", "#d5d9e0"

_NARROWEST = 0.06
"""The part of the width that a phase must have to be labelled."""


def plot(memory: StepMemory, path: str | os.PathLike[str] | None, ax: Any) -> Any:
    """Draw the picture into `ax`, or into a figure of its own; see `StepMemory.plot`."""
    try:
        from backsight.memory.picture import Picture
    except ImportError as missing:
        raise ImportError("plot() needs matplotlib: pip install matplotlib (to_html() needs nothing).") from missing
    if ax is None:
        figure = Picture(figsize=(11, 5.2), dpi=150, layout="constrained", facecolor="white")
        ax = figure.add_subplot()
    _areas(memory.history, ax)
    _phases(memory.history, ax)
    _peak(memory, ax)
    _frame(memory, ax)
    if path is not None:
        ax.figure.savefig(path)
    return ax.figure


def _areas(history: History, ax: Any) -> None:
    """Stack the kinds, each with its bytes at the peak in the legend."""
    curves = by_kind(history)
    total = np.sum(list(curves.values()), axis=0)
    began, kept = highest(history, total, COLUMNS)
    x = began * 1e3
    below = 0 * total[kept]
    bands = []
    for kind, curve in curves.items():
        if curve.any():
            above = below + curve[kept]
            label = f"{kind}\n{amount(int(curve[history.peak_at + 1]))} at the peak"
            bands.append(
                ax.fill_between(x, below, above, step="post", color=LIGHT[kind], linewidth=0, label=label, zorder=2)
            )
            below = above
    ax.step(x, total[kept], where="post", color=_INK, linewidth=0.9, zorder=3)
    if bands:  # as they are stacked: the topmost first
        ax.legend(
            handles=bands[::-1], loc="upper left", bbox_to_anchor=(1.005, 1.0), frameon=False, labelcolor=_INK,
            fontsize=8.5, labelspacing=1.0, handlelength=1.0, handleheight=1.6, borderaxespad=0,
        )  # fmt: skip
    ax.set_xlim(0, max(float((history.ended - history.began) / 1e6), 1e-6))
    ax.set_ylim(0, max(1, history.peak) * 1.22)


def _phases(history: History, ax: Any) -> None:
    """Name the phases along the top, with a line where one begins."""
    left, right = ax.get_xlim()
    for number, (name, began, ended) in enumerate(passes(history)):
        x, length = began * 1e3, (ended - began) * 1e3
        if number and length > 0.004 * (right - left):
            ax.axvline(x, color=_EDGE, linewidth=0.8, zorder=1)
        if length > _NARROWEST * (right - left):
            ax.text(
                x + length / 2, 1.012, name, transform=ax.get_xaxis_transform(), ha="center", va="bottom",
                fontsize=8.5, color=_FAINT,
            )  # fmt: skip


def _peak(memory: StepMemory, ax: Any) -> None:
    """Mark the peak, and name the largest tensors that were alive."""
    history, peak = memory.history, memory.at_peak
    x = float(seconds(history)[peak.at + 1]) * 1e3
    left, right = ax.get_xlim()
    on_the_left = x > left + 0.55 * (right - left)
    head, _, parts = str(peak).partition(": ")
    lines = textwrap.wrap(parts, 76)
    shown = [head, *lines[:2]] if len(lines) < 3 else [head, lines[0], f"{lines[1]} …"]
    ax.plot([x], [peak.bytes], marker="o", markersize=6, color="white", markeredgecolor=_INK, zorder=5, clip_on=False)
    ax.annotate(
        "\n".join(shown), (x, peak.bytes), xytext=(-9 if on_the_left else 9, 8), textcoords="offset points",
        ha="right" if on_the_left else "left", va="bottom", fontsize=8.5, color=_INK, linespacing=1.35, zorder=6,
        bbox={"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 2, "alpha": 0.85},
    )  # fmt: skip


def _frame(memory: StepMemory, ax: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    top = ax.get_ylim()[1]
    unit = 1024 ** max(0, int(math.log(top, 1024)))  # round numbers of it, which round numbers of bytes are not
    numbers = [n for n in MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(0, top / unit) if n * unit <= top]
    name = amount(unit).partition(" ")[2]
    ax.set_yticks([n * unit for n in numbers], [f"{n:g} {name}" if n else "0" for n in numbers])
    ax.grid(axis="y", color=_EDGE, linewidth=0.6, zorder=0)
    ax.set_axisbelow(True)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(_EDGE)
    ax.tick_params(colors=_FAINT, labelsize=8.5, length=0)
    what = "forecast" if memory.is_forecast else "measured; measuring slows it down"
    ax.set_xlabel(f"milliseconds ({what})", fontsize=8.5, color=_FAINT)
    ax.set_title(f"Memory of a step on {memory.device}", loc="left", fontsize=11, color=_INK, fontweight="bold", pad=20)
