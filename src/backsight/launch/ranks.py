"""Which of several processes this is, as torchrun and its like tell it."""

from __future__ import annotations

import os


def rank() -> int:
    """Return which of several processes this is; what is the same for all of them, only the first one says."""
    return _number("RANK", 0)


def ranks() -> int:
    """Return how many processes there are."""
    return max(_number("WORLD_SIZE", 1), 1)


def _number(variable: str, default: int) -> int:
    told = os.environ.get(variable, "")
    return int(told) if told.isdecimal() else default
