"""What `torch.compile` says of global hooks, kept from the user, who registered none."""

from __future__ import annotations

import re
import warnings

_ENTRY = (
    "ignore",
    re.compile(r"Using `torch\.compile\(module\)` when there are global hooks on modules"),
    UserWarning,
    None,
    0,
)
"""Calling a compiled module warns of global hooks, which run once more for its wrapper; ours are no-ops in there."""

_users = 0


class Hushed:
    """Keeps that one warning away until `remove` is called; all others pass, and later filters of the user's count.

    The filter is put into its list by hand: `warnings.filterwarnings` also makes Python forget what it has shown, and
    everything would be shown once more.
    """

    def __init__(self) -> None:
        global _users
        _users += 1
        if not _is_there():
            warnings.filters.insert(0, _ENTRY)  # type: ignore[attr-defined]  # a list, though typed as a Sequence

    def remove(self) -> None:
        """Take the filter away again, unless another still needs it."""
        global _users
        _users -= 1
        if not _users and _is_there():
            warnings.filters.remove(_ENTRY)  # type: ignore[attr-defined]  # a list, though typed as a Sequence


def _is_there() -> bool:
    return any(each is _ENTRY for each in warnings.filters)
