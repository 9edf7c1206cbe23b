"""How many bytes of gradients may gather before they are used for a step and freed."""

from __future__ import annotations

import math
import re

DEFAULT = 16 * 2**20
"""Measured on CPU: from 4 to 16 MB the step takes the same time, and smaller buckets cost more calls."""

SMALLEST = 2**20
"""What "auto" does not go below: there a step spends more on calls than on gradients."""

_UNITS = {"": 1, "b": 1, "kb": 2**10, "kib": 2**10, "mb": 2**20, "mib": 2**20, "gb": 2**30, "gib": 2**30}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def bucket_bytes(bucket: int | float | str, total: int) -> float:
    """Return the size of a bucket in bytes.

    ```python
    bucket_bytes("16MB", total)    # 16777216; KB, MB and GB are powers of 1024
    bucket_bytes(0, total)         # 0: every gradient by itself
    bucket_bytes("auto", total)    # a sixteenth of all gradients, between 1 MB and 16 MB
    ```

    Args:
        bucket: bytes, a size with its unit, or "auto".
        total: bytes of all gradients together.

    Raises:
        ValueError: if this is no size.
        TypeError: if it is neither a number nor a text.
    """
    if isinstance(bucket, bool) or not isinstance(bucket, (int, float, str)):
        raise TypeError(f"bucket must be a number of bytes or text such as '16MB', not {type(bucket).__name__}.")
    if isinstance(bucket, str):
        return _read(bucket, total)
    if math.isnan(bucket) or bucket < 0:
        raise ValueError(f"bucket must be a number of bytes, 0 or more, not {bucket}.")
    return bucket


def _read(text: str, total: int) -> float:
    if text.strip().lower() == "auto":
        return min(max(total // 16, SMALLEST), DEFAULT)
    found = _SIZE.fullmatch(text)
    if found is None or found[2].lower() not in _UNITS:
        raise ValueError(f"bucket={text!r} is not a size; write '16MB', '512KB', 'auto', or a number of bytes.")
    return int(float(found[1]) * _UNITS[found[2].lower()])
