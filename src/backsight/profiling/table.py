"""A profile as a table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from backsight.profiling.row import Row
from backsight.text import PIPED, for_stdout, printable

if TYPE_CHECKING:
    from backsight.profiling.profile import Profile

_SHORTEST = 14
"""Characters that a column of names has at least."""

_GAP = 2
"""Spaces between columns."""

_PHASES = ("forward", "recomputed", "backward", "update")

_ASCII = str.maketrans("µ…", "u~")

Columns = dict[str, list[str]]


def text(profile: Profile, limit: int | None, width: int | None = None, color: bool = False) -> str:
    """Return the table as text, `width` columns wide."""
    from backsight.text.console import printed

    wide = width or (shutil.get_terminal_size((PIPED, 0)).columns)
    return printed(*parts(profile, limit, wide), width=wide, color=color)


def printed(profile: Profile) -> str:
    """Return the table as suits where `print` goes: in colour only in a terminal."""
    return for_stdout(lambda terminal, color: text(profile, 25, color=color), _ASCII)


def parts(profile: Profile, limit: int | None, width: int) -> Iterator[Any]:
    """Yield what rich prints: a line that says how long it took, and the table."""
    from backsight.text.rich import Text

    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ValueError(f"table(limit=...) expects a positive whole number, or None for all rows, not {limit!r}.")
    if not profile.finished:
        yield Text("backsight profile: nothing yet, the profiled block still runs")
        return
    if not profile.rows:
        yield Text(f"backsight profile: no operation ran in {_seconds(profile.wall)}")
        return
    yield Text(_summary(profile), style="bold")
    shown = profile.rows[:limit]
    yield _table(profile.rows, shown, width)
    if len(shown) < len(profile.rows):
        rest = sum(row.share for row in profile.rows[len(shown) :])
        yield Text(f"{len(profile.rows) - len(shown)} more rows with {_share(rest)}", style="dim")


def _summary(profile: Profile) -> str:
    sums = {phase: sum(getattr(row, phase) for row in profile.rows) for phase in _PHASES}
    told = [f"{phase} {_seconds(spent)}" for phase, spent in sums.items() if spent]
    on_device = sum(row.device_total for row in profile.rows)
    if on_device:
        told.append(f"on the GPU {_seconds(on_device)}")
    return f"{_seconds(profile.wall)}: {', '.join(told)}; outside operations {_seconds(profile.outside)}"


def _table(rows: Sequence[Row], shown: Sequence[Row], width: int) -> Any:
    from backsight.text.rich import Table

    names, numbers = next(
        ((names, numbers) for names, numbers in _layouts(rows, shown) if _least(names, numbers) <= width),
        list(_layouts(rows, shown))[-1],
    )
    room = width - sum(_wide(heading, cells) + _GAP for heading, cells in numbers.items())
    rooms = _rooms(names, room)
    fitted = [_fitted(cells, most) for cells, most in zip(names.values(), rooms, strict=True)]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    times = f"times in {_unit(_largest(rows))[0]}"
    for heading, most in zip(names, rooms, strict=True):
        table.add_column(heading or times, no_wrap=True, overflow="ellipsis", max_width=most)
    for heading, cells in numbers.items():
        table.add_column(heading, justify="right", no_wrap=True, min_width=_wide(heading, cells))
    for line in zip(*fitted, *numbers.values(), strict=True):
        table.add_row(*map(_literal, line))
    return table


def _layouts(rows: Sequence[Row], shown: Sequence[Row]) -> Iterator[tuple[Columns, Columns]]:
    """Yield columns of names and of numbers, fewer and fewer: the first that fits is taken."""
    share = {"share": [_share(row.share) for row in shown]}
    times = _times(rows, shown)
    if any(row.kind == "sum" for row in rows):
        names = {"": [_module(row) or printable(row.op) for row in shown]}
        yield names, {**times, **share}
    else:
        ops = {"": [printable(row.op) for row in shown]}
        modules = {"module": [_module(row) for row in shown]}
        leaves = {"gradient of": [printable(", ".join(row.parameters)) for row in shown]}
        both = {"module, gradient of": [printable(", ".join(row.parameters)) or _module(row) for row in shown]}
        calls = {"calls": [str(row.calls) for row in shown]}
        yield _filled({**ops, **modules, **leaves}), {**calls, **times, **share}
        names = _filled({**ops, **both})
        yield names, {**calls, **times, **share}
        yield names, {**times, **share}
    yield names, {**{heading: cells for heading, cells in times.items() if "total" in heading}, **share}


def _times(rows: Sequence[Row], shown: Sequence[Row]) -> Columns:
    """Return the columns of times, without those that hold none; on a GPU only the sum of the CPU's."""
    scale = _unit(_largest(rows))[1]
    on_device = any(row.device_total for row in rows)
    fields = {phase: f"device_{phase}" if on_device else phase for phase in _PHASES}
    used = {heading: name for heading, name in fields.items() if any(getattr(row, name) for row in rows)}
    if on_device:
        used = {**{f"GPU {heading}": name for heading, name in used.items()}, "GPU total": "device_total"}
        used["CPU total"] = "total"
    elif len(used) > 1:
        used["total"] = "total"
    return {heading: [_time(getattr(row, name) * scale) for row in shown] for heading, name in used.items()}


def _largest(rows: Sequence[Row]) -> float:
    return max(max(row.total, row.device_total) for row in rows)


def _filled(columns: Columns) -> Columns:
    return {heading: cells for heading, cells in columns.items() if any(cells)}


def _wide(heading: str, cells: Sequence[str]) -> int:
    return max(map(len, [heading or "times in ms", *cells]))


def _least(names: Columns, numbers: Columns) -> int:
    """Return how wide a table is at least, in which names are cut."""
    texts = sum(min(_wide(heading, cells), _SHORTEST) + _GAP for heading, cells in names.items())
    return texts + sum(_wide(heading, cells) + _GAP for heading, cells in numbers.items())


def _rooms(names: Columns, room: int) -> list[int]:
    """Return the widths of the columns of names, which are cut down, the widest first, until they fit."""
    widths = [_wide(heading, cells) for heading, cells in names.items()]
    while sum(widths) + _GAP * len(widths) > room and max(widths) > _SHORTEST // 2:
        widths[widths.index(max(widths))] -= 1
    return widths


def _fitted(cells: list[str], room: int) -> list[str]:
    """Cut names on the left: their ends tell them apart."""
    return [cell if len(cell) <= room else f"…{cell[1 - room :]}" for cell in cells]


def _module(row: Row) -> str:
    if row.module is None:
        return ""
    return printable(row.module) or "(model)"


def _literal(cell: str) -> Any:
    """Return text that holds no markup, wherever it is printed."""
    from backsight.text.rich import Text

    return Text(cell)


def _unit(largest: float) -> tuple[str, float]:
    return ("s", 1.0) if largest >= 10 else ("ms", 1e3) if largest >= 1e-3 else ("µs", 1e6)


def _time(amount: float) -> str:
    return "" if not amount else f"{amount:.1f}" if amount >= 100 else f"{amount:.3f}"


def _share(part: float) -> str:
    return f"{100 * part:.1f} %"


def _seconds(amount: float) -> str:
    unit, scale = _unit(amount)
    return f"{amount * scale:.3g} {unit}" if amount * scale < 1000 else f"{amount * scale:.0f} {unit}"
