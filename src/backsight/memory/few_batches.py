"""`FewBatches`: what an imagined step reads of a loader of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from backsight.memory._torch import without_modes

BATCHES = 2
"""As many as steps are done: a forecast is of a step, and not of an epoch."""


class FewBatches:
    """The first batches of a loader, read for real and then imagined; it has the length of the loader."""

    def __init__(self, loader: Any, imagine: Callable[[Any], Any]) -> None:
        self._loader = loader
        self._imagine = imagine

    def __iter__(self) -> Iterator[Any]:
        with without_modes():
            batches = list(islice(iter(self._loader), BATCHES))
        yield from map(self._imagine, batches)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
