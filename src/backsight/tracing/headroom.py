"""Room on Python's stack for the frames that hooks add to it, so that a program recurses as deep as without them.

PyTorch calls a module through one frame more where there is a hook on all modules, and a program of 240 modules within
one another, which plain Python just allows, would end with a RecursionError.

Source: torch/nn/modules/module.py, `_call_impl`.
"""

from __future__ import annotations

import sys

_OURS = 150
"""Frames that our own code needs above the program's."""

_limits: list[int] = []  # while anybody has raised it: the program's, and the one it was raised to
_users = 0


class Headroom:
    """Raises the limit of recursion by a third until `remove`; one that the program sets meanwhile stays."""

    def __init__(self) -> None:
        global _users
        if not _users:
            before = sys.getrecursionlimit()
            _limits[:] = before, before + before // 3 + _OURS
            sys.setrecursionlimit(_limits[1])
        _users += 1

    def remove(self) -> None:
        """Set it back, unless another still needs it."""
        global _users
        _users -= 1
        if not _users and sys.getrecursionlimit() == _limits[1]:
            sys.setrecursionlimit(_limits[0])
