"""Sizes of memory as people write them."""

from __future__ import annotations

import re

_UNITS = {unit: 1024**power for power, unit in enumerate(("", "k", "m", "g", "t"))}
_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)


def bytes_of(size: str | int) -> int:
    """Return the bytes of a size; units are multiples of 1024, as makers of memory count them.

    >>> bytes_of("24GB"), bytes_of("1.5 MiB"), bytes_of(512)
    (25769803776, 1572864, 512)

    Raises ValueError for what is not a size, and TypeError for what is neither text nor a whole number.
    """
    if isinstance(size, bool) or not isinstance(size, (str, int)):
        raise TypeError(f'A size must be text such as "24GB" or a number of bytes, not a {type(size).__name__}.')
    if isinstance(size, int):
        if size < 0:
            raise ValueError(f"A size must not be negative: {size}.")
        return size
    found = _WRITTEN.fullmatch(size)
    if found is None:
        raise ValueError(f'{size!r} is not a size. Write "24GB", "512 MB", or a number of bytes.')
    return int(float(found[1]) * _UNITS[found[2].lower()])
