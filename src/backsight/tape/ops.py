"""Operations by the names of their nodes."""

from __future__ import annotations

from functools import lru_cache

VIEWS = frozenset(
    {"T", "View", "Transpose", "Permute", "Expand", "UnsafeView", "ReshapeAlias", "Alias", "AsStrided"}
    | {"Squeeze", "Unsqueeze"}
)
"""Operations that hand every value on unchanged and only look at it in another shape.

Slice, Select and Split choose values and Clone copies them, so these are none.
"""


@lru_cache(maxsize=4096)
def op_name(name: str) -> str:
    """Return `Mul` for `MulBackward0`, and other names as they are."""
    head, _, tail = name.rpartition("Backward")
    return head if head and (not tail or tail.isdigit()) else name
