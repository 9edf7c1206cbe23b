"""A line of a few characters that shows how a number went."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

BARS = "▁▂▃▄▅▆▇█"
GAP = "·"
"""In place of a step at which there was no finite number."""

STILL = 1e-9
"""A series that varies by less than this part of its size is flat."""


FLATTENED = 20
"""How much more than the middle of its values the highest is where an even scale would press a line flat."""


def is_flattened(values: Sequence[float]) -> bool:
    """Whether a scale is to be logarithmic; the viewer decides alike: chart.js, `isFlattened`."""
    found = sorted(value for value in values if 0 < value < math.inf)
    return bool(found) and found[-1] > FLATTENED * found[len(found) // 2] and not any(value < 0 for value in values)


def logarithms(values: Sequence[float]) -> list[float]:
    """Return what is drawn of values on a logarithmic scale; a zero is as low as the lowest of the others."""
    low = min(value for value in values if value > 0)
    return [math.log10(max(value, low)) if math.isfinite(value) else value for value in values]


def sparkline(values: Sequence[float], width: int) -> str:
    """Return the values as bars between their least and greatest; of several in one place the one farthest out shows.

    >>> sparkline([1, 2, 3, 4, 5, 6, 7, 8], 8)
    '▁▂▃▄▅▆▇█'
    """
    found = [value for value in values if math.isfinite(value)]
    low, high = min(found, default=0.0), max(found, default=0.0)
    if math.isinf(high - low):
        return sparkline([value / 4 for value in values], width)
    flat = high - low <= STILL * max(abs(low), abs(high))
    line = []
    for part in _parts(values, width):
        held = [value for value in part if math.isfinite(value)]
        if len(held) < len(part) or not held:
            line.append(GAP)
        elif flat:
            line.append(BARS[0] if high == 0 else BARS[len(BARS) // 2 - 1])
        else:
            middle = (low + high) / 2
            farthest = max(held, key=lambda value: abs(value - middle))
            line.append(BARS[min(len(BARS) - 1, int((farthest - low) / (high - low) * len(BARS)))])
    return "".join(line)


def _parts(values: Sequence[float], width: int) -> list[Sequence[float]]:
    """Return the values in at most `width` parts of about equal length."""
    count = min(width, len(values))
    bounds = [k * len(values) // count for k in range(count + 1)] if count else []
    return [values[start:end] for start, end in pairwise(bounds)]
