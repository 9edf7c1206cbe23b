"""Numbers on their way to a page: arrays as base64 of little-endian numbers, single ones as JSON has them."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def packed(values: NDArray[Any], kind: str) -> dict[str, Any]:
    """Return an array for the page: `kind` is "f4", "u1" or "f8"; a page reads it with a typed array.

    What "f4" would make infinite or would lose the digits of is sent as "f8": a number that is finite is shown so.
    """
    if kind == "f4" and not _fits(values):
        kind = "f8"
    with np.errstate(over="ignore", invalid="ignore"):
        data = np.ascontiguousarray(values.astype(f"<{kind}")).tobytes()
    return {"kind": kind, "shape": list(values.shape), "data": base64.b64encode(data).decode("ascii")}


def _fits(values: NDArray[Any]) -> bool:
    """Whether float32 holds all of these numbers with its full precision."""
    size = np.abs(values)
    limits = np.finfo(np.float32)
    return not bool(((np.isfinite(size) & (size > limits.max)) | ((size > 0) & (size < limits.tiny))).any())


_EXACT = 2**53
"""Up to where a number of JavaScript's counts by ones."""


def plain(value: Any) -> Any:
    """Return a value as JSON and a browser can hold it: what is not finite as a word, what is not known as text, and so
    is an integer that JavaScript would round, as a seed may be."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): plain(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(held) for held in value]
    if isinstance(value, int) and abs(value) > _EXACT:
        return str(value)
    if value is None or isinstance(value, (str, bool, int)):
        return value
    return plain(value.item()) if isinstance(value, np.generic) else str(value)
