"""A step's memory as tables: the peak in words, kinds over time, modules and the largest tensors at the peak."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np

from backsight.memory.curves import at_moments, by_kind
from backsight.memory.explain import NOUNS, Held, amount, names_of

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from backsight.memory.timeline import StepMemory

BARS = " ▁▂▃▄▅▆▇█"
_LINE = 32
"""Characters of a line that shows bytes over the step."""


def text(memory: StepMemory, rows: int, width: int | None) -> str:
    """Return the tables as text: in colour and as wide as the terminal where the output is one, else plain."""
    from rich.console import Console

    terminal = Console()
    width = width or (terminal.width if terminal.is_terminal else 120)
    color: Literal["auto"] | None = "auto" if terminal.is_terminal else None
    console = Console(width=width, file=io.StringIO(), force_terminal=terminal.is_terminal, color_system=color)
    console.print(*renderables(memory, rows), sep="\n")
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]  # ours


def renderables(memory: StepMemory, rows: int) -> Iterator[RenderableType]:
    """Yield the tables for rich."""
    from rich.text import Text

    head = str(memory.at_peak)
    yield Text(head[:1].upper() + head[1:] + ".", "bold")
    yield Text(_about(memory), "dim")
    yield _kinds(memory)
    yield _modules(memory, rows)
    yield _largest(memory, rows)


def _about(memory: StepMemory) -> str:
    taken = sum(1 for block in memory.history.blocks if block.born >= 0)
    seconds = (memory.history.ended - memory.history.began) / 1e9
    said = (
        f"{memory.device}: {amount(memory.start)} before the step, {amount(memory.end)} after it, {taken:,} allocations"
    )
    said += "; a forecast, nothing was allocated" if memory.is_forecast else f" in {seconds:.3g} s"
    if memory.others:
        said += f"; {', '.join(memory.others)} not shown"
    return said + (f"; the step ended with {memory.failed}" if memory.failed else "")


def _empty(*headings: str, title: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number == 0 else "right", no_wrap=True, overflow="ellipsis")
    return table


def _kinds(memory: StepMemory) -> Table:
    table = _empty("kind", "at the peak", "", "most", "before", "after", "over the step", title="by kind")
    series = by_kind(memory.history)
    top = max((int(values.max()) for values in series.values()), default=0)
    at_peak = memory.by_kind
    for kind, values in sorted(series.items(), key=lambda each: -at_peak[each[0]]):
        if not values.any():
            continue
        size = at_peak[kind]
        share = _share(size, memory)
        line = _line(memory, values, top)
        table.add_row(kind, amount(size), share, *(amount(int(n)) for n in (values.max(), values[0], values[-1])), line)
    return table


def _line(memory: StepMemory, values: np.typing.NDArray[np.int64], top: int) -> str:
    """Return bytes over the events of the step as bars."""
    shown = at_moments(memory.history, values, _LINE)
    return "".join(BARS[round(n / max(1, top) * (len(BARS) - 1)) or bool(n)] for n in shown.tolist())


def _modules(memory: StepMemory, rows: int) -> Table:
    table = _empty("module", "at the peak", "", "most of it", title="by module, at the peak")
    history = memory.history
    alive = history.alive(history.peak_at)
    sums: dict[str, dict[str, int]] = {}
    for block, size in alive:
        kinds = sums.setdefault(block.module, {})
        kinds[block.kind] = kinds.get(block.kind, 0) + size
    ordered = sorted(sums.items(), key=lambda each: -sum(each[1].values()))
    for module, kinds in ordered[:rows]:
        size, most = sum(kinds.values()), max(kinds, key=lambda kind: kinds[kind])
        table.add_row(module or "(outside)", amount(size), _share(size, memory), most)
    if len(ordered) > rows:
        rest = sum(sum(kinds.values()) for _, kinds in ordered[rows:])
        table.add_row(f"{len(ordered) - rows:,} more", amount(rest), _share(rest, memory), "")
    return table


def _largest(memory: StepMemory, rows: int) -> Table:
    table = _empty("tensors", "together", "each", "shape", "dtype", "kind", title="the largest, at the peak")
    held = memory.at_peak.held
    for each in held[:rows]:
        shape = "×".join(map(str, each.shape)) if each.shape else ""
        table.add_row(names_of(each, 2), amount(each.bytes), _each(each), shape, each.dtype, _kind(each))
    if len(held) > rows:
        rest = sum(each.bytes for each in held[rows:])
        table.add_row(f"{sum(each.count for each in held[rows:]):,} more", amount(rest), "", "", "", "")
    return table


def _share(size: int, memory: StepMemory) -> str:
    share = 100 * size / max(1, memory.peak)
    return "<1 %" if 0 < share < 1 else f"{share:.0f} %"


def _each(held: Held) -> str:
    return f"{held.count} × {amount(held.each)}" if held.count > 1 else ""


def _kind(held: Held) -> str:
    return "several" if held.kind is None else NOUNS[held.kind] or held.kind
