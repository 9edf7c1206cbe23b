"""Numbers, sizes, times and names as short text."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from backsight.text import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from backsight.text.rich import Text

_NUMERALS = 4


def number(value: float) -> str:
    """Return a number in at most nine characters: `0.01234`, `1.23e-05`, `12340`.

    >>> [number(x) for x in (0.0, 0.5, -1234.5678, 9999.6, 3e-9, float("nan"), float("-inf"))]
    ['0', '0.5', '-1235', '9999.6', '3e-09', '–', '-inf']
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return str(value)
    size = abs(value)
    if value == 0 or 1e-3 <= size < 1e5:
        digits = max(_NUMERALS, len(str(round(size))))
        return f"{value:.{digits}g}"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{exponent}"


def fraction(value: float) -> str:
    """Return a part of a whole in percent; only none at all is `0 %`, and only all of it `100 %`."""
    if math.isnan(value):
        return "–"
    if value and value < 0.01:
        return "<1 %"
    return f"{min(99.0, 100 * value) if value < 1 else 100:.0f} %"


def moment(seconds: float) -> str:
    """Return a time in the zone of the reader."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def ago(seconds: float) -> str:
    """Return how long something is past, in the largest unit that fits: `3 min`."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(max(0, seconds))} s"


def steps_of(steps: Sequence[int] | NDArray[Any], made: int | None = None) -> str:
    """Return how many steps a recording has, and of how many, where only some of them were recorded.

    made: how many there were, if not as many as the newest says.

    >>> steps_of(range(300)), steps_of(range(0, 300, 2)), steps_of([])
    ('300 steps', '150 of 299 steps', '0 steps')
    """
    if made is None:
        made = int(steps[-1]) + 1 if len(steps) else 0
    return counted(len(steps), "step") if len(steps) >= made else f"{len(steps):,} of {made:,} steps"


def command(typed: str) -> Text:
    """Return a command to be copied."""
    return line(f"  {typed}")


def line(text: str) -> Text:
    """Return a text that stays one line, however narrow the terminal is."""
    from backsight.text.rich import Text

    return Text(text, no_wrap=True)
