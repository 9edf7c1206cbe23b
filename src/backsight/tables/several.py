"""Several runs side by side: what their numbers are now, and what was set otherwise."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from backsight.runs import Run, Scalar
from backsight.tables import listing
from backsight.tables.listing import listed
from backsight.tables.scalars import label, spelt, told
from backsight.tables.settings import settings_of
from backsight.tables.sparkline import is_flattened, logarithms, sparkline
from backsight.text import printable

if TYPE_CHECKING:
    from backsight.text.rich import RenderableType, Table

_LINE, _SHORTEST = 12, 6
"""Characters of the line beside a number, at most and at least."""

_NUMBER, _GAPS = 9, 4
"""Characters of a number before a line, and of the gaps between and behind them."""

_LONGEST = 40


def numbers(runs: Sequence[Run], width: int) -> Iterator[RenderableType]:
    """Yield the last value of each number, the median of times, with a line over the steps; a column for each run."""
    from backsight.text.rich import Text

    found = [{each.name: each for each in told(run)} for run in runs]
    headings = {name: _heading(scalar) for each in found for name, scalar in each.items()}
    flattened = {name for each in found for name, scalar in each.items() if is_flattened(scalar.values.tolist())}
    with_scales = headings | {name: f"{headings[name]}, log scale" for name in flattened}
    beside = max(map(len, (*with_scales.values(), _LAST))) + 2
    line = min(_LINE, (width - beside) // len(runs) - _NUMBER - _GAPS)
    headings = with_scales if line >= _SHORTEST else headings
    grid = _grid(runs, beside, width, _LAST)
    about = [listed(run) for run in runs]
    grid.add_row("steps", *(Text(listing.recorded(each)) for each in about))
    grid.add_row("state", *(Text(each.state) for each in about))
    for name, heading in headings.items():
        log = name in flattened
        grid.add_row(heading, *(_cell(each.get(name), line if line >= _SHORTEST else 0, log) for each in found))
    yield grid
    if line < _SHORTEST:
        wide = beside + len(runs) * (_NUMBER + _GAPS + _SHORTEST)
        yield Text(f"curves: in a terminal of {wide} columns or more", "dim")


_LAST = "last value"


def _heading(scalar: Scalar) -> str:
    return f"median {label(scalar)}" if scalar.name == "step_time" else label(scalar)


def settings(runs: Sequence[Run], width: int) -> Table | None:
    """Return the settings that are not the same in all runs; None if there are none."""
    from backsight.text.rich import Text

    held: list[dict[tuple[str, str], Any]] = [
        {(group, name): value for group, name, value in settings_of(run)} for run in runs
    ]
    keys = dict.fromkeys(key for each in held for key in each)
    said: dict[tuple[str, ...], tuple[str, str]] = {}
    for key in keys:
        values = [_comparable(each.get(key)) for each in held]
        if len(set(values)) > 1:
            said.setdefault((_UNSCHEDULED.sub("lr", key[1]), *values), key)  # once what says the same of the same
    differing = list(said.values())
    if not differing:
        return None
    twice = {name for name, times in Counter(name for _, name in differing).items() if times > 1}
    headings = [printable(f"{name} ({group})" if name in twice else name) for group, name in differing]
    grid = _grid(runs, max(map(len, headings)) + 2, width)
    for key, heading in zip(differing, headings, strict=True):
        grid.add_row(heading, *(Text(_short(each.get(key))) for each in held))
    return grid


_UNSCHEDULED = re.compile(r"\binitial_lr\b")
"""What a scheduler calls the learning rate that it begins with."""


def _comparable(value: Any) -> str:
    """Return a text that two settings share if they are the same: `--lr 1e-3` on a command line is 0.001."""
    is_number = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    try:
        return repr(float(value)) if is_number else json.dumps(value, default=str)
    except ValueError:
        return str(value)


def _grid(runs: Sequence[Run], beside: int, width: int, about: str = "") -> Table:
    """Return a table of a column for each run, `beside` another of so many characters."""
    from backsight.text.rich import Table, Text

    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    grid.add_column(about, overflow="fold")
    for name in _names(runs, (width - beside) // len(runs) - 2):
        grid.add_column(Text(printable(name), "bold"), overflow="fold")
    return grid


def _names(runs: Sequence[Run], room: int) -> list[str]:
    """Return what columns of `room` characters are headed by: of names too long for that, what tells them apart."""
    names = [run.name for run in runs]
    if max(map(len, names)) <= room:
        return names
    parts = [name.split("-") for name in names]
    same = len([*takewhile(lambda each: len(set(each)) == 1, zip(*(each[:-1] for each in parts), strict=False))])
    return ["…" * bool(same) + "-".join(each[same:]) for each in parts]


def _cell(scalar: Scalar | None, width: int, log: bool) -> Any:
    from backsight.text.rich import Text

    if scalar is None:
        return Text("–", "dim")
    now = np.median(scalar.values) if scalar.name == "step_time" else scalar.values[-1]
    text = spelt(scalar, now) if np.isfinite(now) else str(now)
    values: list[float] = scalar.values.tolist()
    line = f"  {sparkline(logarithms(values) if log else values, width)}" if width else ""
    return Text.assemble(
        (f"{text:<{_NUMBER}}" if width else text, "" if np.isfinite(now) else "bold red"), (line, "cyan")
    )


def _short(value: Any) -> str:
    text = "–" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    text = printable(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
