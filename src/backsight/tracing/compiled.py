"""What `torch.compile` says of our hooks, kept from the user, who did not register them."""

from __future__ import annotations

import warnings

_MESSAGE = r"Using `torch\.compile\(module\)` when there are global hooks on modules"
"""Calling a compiled module warns of global hooks, which run once more for its wrapper; ours are no-ops in there."""


class Hushed:
    """Keeps that one warning away until `remove` is called; all others pass, and later filters of the user's count."""

    def __init__(self) -> None:
        before = list(warnings.filters)
        warnings.filterwarnings("ignore", message=_MESSAGE, category=UserWarning)
        entry = warnings.filters[0]
        self._entry = None if entry in before else entry

    def remove(self) -> None:
        """Take the filter away again; one that was there before stays."""
        if self._entry is not None and self._entry in warnings.filters:
            warnings.filters.remove(self._entry)  # type: ignore[attr-defined]  # a list, though typed as a Sequence
