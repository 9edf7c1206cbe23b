"""Operations by the names of their nodes."""

from __future__ import annotations

import re
from functools import lru_cache

VIEWS = frozenset(
    {"T", "View", "Transpose", "Permute", "Expand", "UnsafeView", "ReshapeAlias", "Alias", "AsStrided"}
    | {"Squeeze", "Unsqueeze"}
)
"""Operations that hand every value on unchanged and only look at it in another shape.

Slice, Select and Split choose values and Clone copies them, so these are none.
"""


_KERNEL = re.compile(r"(ScaledDotProduct)(?:Flash|Efficient|Cudnn|Fused)(Attention)\w*")
"""Nodes of attention are named by the kernel that computes it."""


@lru_cache(maxsize=4096)
def op_name(name: str) -> str:
    """Return `Mul` for `MulBackward0`, and other names as they are; for every kernel of attention the name of that."""
    head, _, tail = name.rpartition("Backward")
    if not head or (tail and not tail.isdigit()):
        return name
    return _KERNEL.sub(r"\1\2", head)
