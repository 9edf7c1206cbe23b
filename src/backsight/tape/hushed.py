"""What `torch.compile` says of global hooks, kept from the user, who registered none."""

from __future__ import annotations

from typing import Any

from backsight.quiet import hide, is_hidden, show

_TEXT = r"Using `torch\.compile\(module\)` when there are global hooks on modules"
"""Calling a compiled module warns of global hooks, which run once more for its wrapper; ours are no-ops in there."""

_entry: tuple[Any, ...] | None = None
_users = 0


class Hushed:
    """Keeps that one warning away until `remove` is called; all others pass, and later filters of the user's count."""

    def __init__(self) -> None:
        global _entry, _users
        _users += 1
        if _entry is None or not is_hidden(_entry):
            _entry = hide(UserWarning, _TEXT)

    def remove(self) -> None:
        """Take the filter away again, unless another still needs it."""
        global _users
        _users -= 1
        if not _users and _entry is not None:
            show(_entry)
