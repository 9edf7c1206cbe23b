"""Counts, lists and sizes as sentences and tables have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def counted(count: int, noun: str) -> str:
    """Return `1 step`, or `1,200 steps`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def numbered(nth: int) -> str:
    """Return the number of the `nth` step of a training as every text gives it, as `range` does: the first is step 0.

    >>> numbered(1), numbered(2000)
    ('0', '1,999')
    """
    return f"{nth - 1:,}"


def listed(items: Sequence[str], limit: int | None = None) -> str:
    """Return `a`, `a and b`, `a, b and c`; what goes beyond `limit` is counted: `a, b and 5 more`."""
    shown = [*items[:limit]]
    if len(shown) < len(items):
        shown.append(f"{len(items) - len(shown):,} more")
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def lines_at(numbers: Iterable[int], limit: int | None = None) -> str:
    """Return `line 3`, or `lines 3 and 5`."""
    each = [str(number) for number in dict.fromkeys(numbers)]
    return f"line{'s' * (len(each) > 1)} {listed(each, limit)}"


def size(count: float) -> str:
    """Return a number of bytes in multiples of 1024, as memory is sold and counted.

    >>> [size(n) for n in (12, 1024, 1536, 84.23 * 2**20, 1.9 * 2**30)]
    ['12 B', '1 KB', '1.5 KB', '84.2 MB', '1.9 GB']
    """
    value, unit = _scaled(count)
    return (
        f"{value:.0f} {unit}" if unit == "B" or abs(value) >= 99.95 else f"{value:.1f}".removesuffix(".0") + f" {unit}"
    )


def amount(count: float) -> str:
    """Return a number of bytes with three figures, for columns.

    >>> [amount(n) for n in (12, 999, 1024, 823 * 2**20, 1.9 * 2**30)]
    ['12 B', '999 B', '1.00 KB', '823 MB', '1.90 GB']
    """
    value, unit = _scaled(count)
    decimals = 0 if unit == "B" or abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{decimals}f} {unit}"


def _scaled(count: float) -> tuple[float, str]:
    value, unit = float(count), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if abs(value) < 999.5:
            break
        value, unit = value / 1024, larger
    return value, unit


def as_code(text: str) -> str:
    """`text` with each path of a module as Python takes it.

    >>> as_code("Clear it: net.blocks.0.map = None.")
    'Clear it: net.blocks[0].map = None.'
    """
    return _PATH.sub(lambda found: found[0] if ".py" in found[0] else _NUMBER.sub(r"[\1]", found[0]), text)


_PATH = re.compile(r"""(?<![\w."'/])(?:[A-Za-z_]|(?<=\])\.)[\w.]*""")
"""A path that is no part of a text in quotes: there it is a name."""
_NUMBER = re.compile(r"\.(\d+)(?=\.|$)")
