"""A step's memory as tables: the peak in words, kinds over time, modules and the largest tensors at the peak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import numpy as np

from backsight.memory.curves import at_moments, by_kind
from backsight.memory.explain import NOUNS, Held, lines_of, names_of
from backsight.text import PIPED, amount, for_stdout

if TYPE_CHECKING:
    from backsight.memory.timeline import StepMemory
    from backsight.text.rich import RenderableType, Table

BARS = " ▁▂▃▄▅▆▇█"
_LINE = 32
"""Characters of a line that shows bytes over the step."""

_GAP = 3
"""Characters between columns."""

_MIDDLE, _WIDE = 90, 110
"""Columns from which on there is room for the lines of tensors, and for their shapes too."""

_SHORTEST = 12
"""Characters that a column of names has at least."""


def text(memory: StepMemory, rows: int, width: int | None) -> str:
    """Return the tables as text: in colour and as wide as the terminal where the output is one, else plain."""
    from backsight.text.console import printed

    def render(terminal: bool, color: bool) -> str:
        columns = width or (get_terminal_size().columns if terminal else PIPED)
        return printed(*renderables(memory, rows, columns), width=columns, color=color)

    return for_stdout(render)


def renderables(memory: StepMemory, rows: int, width: int) -> Iterator[RenderableType]:
    """Yield the tables for rich."""
    from backsight.text.rich import Text

    head = str(memory.at_peak)
    yield Text(head[:1].upper() + head[1:] + ".", "bold")
    yield Text(about(memory), "dim")
    yield _kinds(memory, width)
    yield _modules(memory, rows, width)
    yield _largest(memory, rows, width)


def about(memory: StepMemory) -> str:
    """Return the device, what was there before and after, and what else is to be known."""
    taken = sum(1 for block in memory.history.blocks if block.born >= 0)
    said = (
        f"{memory.device}: {amount(memory.start)} before the step, {amount(memory.end)} after it, {taken:,} allocations"
    )
    if memory.is_forecast:
        said += "; a forecast, nothing was allocated"
    if memory.others:
        said += f"; {', '.join(memory.others)} not shown"
    return said + (f"; the step ended with {memory.failed}" if memory.failed else "")


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Table:
    """Return a table of which the first column gives way where there is no room; numbers are never cut."""
    from backsight.text.rich import Table, box

    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    room = width - sum(each + _GAP for each in widths[1:]) - _GAP
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", pad_edge=False)
    for number, heading in enumerate(headings):
        first = number == 0
        table.add_column(
            heading,
            justify="left" if first else "right",
            no_wrap=True,
            overflow="ellipsis",
            max_width=max(_SHORTEST, room) if first else None,
            min_width=None if first else widths[number],
        )
    for row in rows:
        table.add_row(*row)
    return table


def _kinds(memory: StepMemory, width: int) -> Table:
    series, at_peak = by_kind(memory.history), memory.by_kind
    top = max((int(values.max()) for values in series.values()), default=0)
    shown = [kind for kind in sorted(series, key=lambda kind: -at_peak[kind]) if series[kind].any()]
    headings = ["kind", "at the peak", "", "most", "before", "after"]
    rows = []
    for kind in shown:
        told = [amount(int(n)) for n in (series[kind].max(), series[kind][0], series[kind][-1])]
        rows.append([kind, amount(at_peak[kind]), _share(at_peak[kind], memory), *told])
    room = width - sum(max(map(len, column)) + _GAP for column in zip(headings, *rows, strict=True)) - 2
    if room >= len("over time"):
        headings.append("over time")
        for kind, row in zip(shown, rows, strict=True):
            row.append(_line(memory, series[kind], top, min(room, _LINE)))
    return _table("by kind", headings, rows, width)


def _line(memory: StepMemory, values: np.typing.NDArray[np.int64], top: int, count: int) -> str:
    """Return bytes over the time of the step as bars."""
    shown = at_moments(memory.history, values, count)
    return "".join(BARS[round(n / max(1, top) * (len(BARS) - 1)) or bool(n)] for n in shown.tolist())


def _modules(memory: StepMemory, most: int, width: int) -> Table:
    history = memory.history
    sums: dict[str, Counter[str]] = {}
    for block, size in history.alive(history.peak_at):
        sums.setdefault(block.module, Counter())[block.kind] += size
    ordered = sorted(sums.items(), key=lambda each: -each[1].total())
    rows = [
        [module or "(outside)", amount(kinds.total()), _share(kinds.total(), memory), kinds.most_common(1)[0][0]]
        for module, kinds in ordered[:most]
    ]
    if len(ordered) > most:
        rest = sum(kinds.total() for _, kinds in ordered[most:])
        rows.append([f"{len(ordered) - most:,} more", amount(rest), _share(rest, memory), ""])
    return _table("by module, at the peak", ["module", "at the peak", "", "most of it"], rows, width)


def _largest(memory: StepMemory, most: int, width: int) -> Table:
    held = memory.at_peak.held
    rows = [_row(each) for each in held[:most]]
    if len(held) > most:
        rest = held[most:]
        more = f"{sum(each.count for each in rest):,} more"
        rows.append([more, amount(sum(each.bytes for each in rest)), "", "", "", ""])
    headings = ["tensors", "together", "each", "kind", "made at", "shape"]
    shown = 6 if width >= _WIDE else 5 if width >= _MIDDLE else 4
    return _table("the largest, at the peak", headings[:shown], [row[:shown] for row in rows], width)


def _row(held: Held) -> list[str]:
    return [names_of(held, 2), amount(held.bytes), _each(held), _kind(held), lines_of(held), _form(held)]


def _form(held: Held) -> str:
    """Return shape and dtype, the usual one left out."""
    shape = "×".join(map(str, held.shape)) if held.shape else ""
    return shape if held.dtype == "float32" else f"{shape} {held.dtype}".strip()


def _share(size: int, memory: StepMemory) -> str:
    share = 100 * size / max(1, memory.peak)
    return "<1 %" if 0 < share < 1 else f"{share:.0f} %"


def _each(held: Held) -> str:
    return f"{held.count} × {amount(held.each)}" if held.count > 1 else ""


def _kind(held: Held) -> str:
    return "several" if held.kind is None else NOUNS[held.kind] or held.kind
