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


def hush() -> None:
    """Keep that one warning away.

    The filter is put into its list by hand: `warnings.filterwarnings` also makes Python forget what it has shown, and
    everything would be shown once more.
    """
    if not any(each is _ENTRY for each in warnings.filters):
        warnings.filters.insert(0, _ENTRY)  # type: ignore[attr-defined]  # a list, though typed as a Sequence


def let_speak() -> None:
    """Take the filter away again."""
    if any(each is _ENTRY for each in warnings.filters):
        warnings.filters.remove(_ENTRY)  # type: ignore[attr-defined]  # a list, though typed as a Sequence
