"""A standstill: the program does not go on, and searches share what they find out about it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from itertools import tee
from typing import TYPE_CHECKING

from .roots import Root, stages

if TYPE_CHECKING:
    from .walk import Walk


class Shared:
    """What the searches of one thread share until it goes on."""

    def __init__(self) -> None:
        self.nowhere: dict[int, tuple[object, dict[int, type]]] = {}
        """Large containers that lead nowhere, by id, with the types that were met in them."""
        self.walk: Walk | None = None
        """A walk that has met all that the user's frames and modules lead to."""
        self._stages = tee(stages((), False, threading.get_ident()), 1)[0]

    def stages(self) -> Iterable[list[Root]]:
        """Return the roots of a search from the user's frames outwards, each stage of which is looked up once."""
        return copy(self._stages)


class _Held(threading.local):
    shared: Shared | None = None


_held = _Held()


@contextmanager
def standstill() -> Iterator[None]:
    """Let several searches share what they find out: within, this thread's program does not go on.

    What another thread adds meanwhile has no name until the next standstill.
    """
    if _held.shared is not None:
        yield
        return
    _held.shared = Shared()
    try:
        yield
    finally:
        _held.shared = None


def shared() -> Shared | None:
    """Return what the searches of this thread share now, if it is at a standstill."""
    return _held.shared
