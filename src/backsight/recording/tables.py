"""Hooks in tables that all threads share: they come and go only while no other thread is walking through the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from backsight.recording._torch import busy
from backsight.tape import Hushed, unnumbered

PATIENCE = 200
"""Milliseconds that hooks which may wait, wait for another thread."""

_left: list[Tables] = []
"""Tables that could not be cleared when they were to be."""

_awaited: list[Tables] = []
"""Tables that could not be filled when they were to be."""


def settle() -> bool:
    """Install and remove what could not be while other threads were at work; return whether all hooks are there."""
    for tables in [*_awaited]:
        tables.attach()
    if _left:
        _clear()
    return not _awaited


class Tables:
    """Some hooks that are installed together, and removed together.

    PyTorch walks through its tables of hooks by Python's iterators: whoever adds or removes one meanwhile ends the
    thread that walks, by "OrderedDict mutated during iteration". So a hook may stay for a while, and has to be one that
    does nothing then.
    """

    def __init__(self, register: Sequence[Callable[[], Any]], of: str):
        self._register, self._of = register, of
        self._handles: list[Any] = []

    def attach(self, *, wait: bool = False) -> bool:
        """Install the hooks, unless another thread is at work there; return whether they are there now.

        If they are not, `settle` tries again.
        """
        if self in _left:
            _left.remove(self)
        if self._handles:
            return True
        for _ in range(PATIENCE if wait else 1):
            if not busy(self._of):
                with unnumbered():
                    self._handles = [*(register() for register in self._register), Hushed()]
                break
            if wait:
                time.sleep(0.001)
        if self.there == (self in _awaited):
            _awaited.remove(self) if self.there else _awaited.append(self)
        return self.there

    @property
    def there(self) -> bool:
        """Whether the hooks are there."""
        return bool(self._handles)

    def detach(self) -> None:
        """Remove the hooks; those on which another thread is at work, when this is next called of any."""
        if self in _awaited:
            _awaited.remove(self)
        if self._handles and self not in _left:
            _left.append(self)
        _clear()


def _clear() -> None:
    """Remove the hooks of what is left, where no other thread is at work."""
    for tables in _left:
        if not busy(tables._of):
            for handle in tables._handles:
                handle.remove()
            tables._handles = []
    _left[:] = [each for each in _left if each.there]
