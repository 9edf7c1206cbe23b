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
        """Install the hooks, unless another thread is at work there; return whether they are there now."""
        if self._handles:
            return True
        for _ in range(PATIENCE if wait else 1):
            if not busy(self._of):
                with unnumbered():
                    self._handles = [*(register() for register in self._register), Hushed()]
                return True
            if wait:
                time.sleep(0.001)
        return False

    def detach(self) -> None:
        """Remove the hooks; those on which another thread is at work, when this is next called of any."""
        for tables in (self, *_left):
            if tables._handles and not busy(tables._of):
                for handle in tables._handles:
                    handle.remove()
                tables._handles = []
        _left[:] = [each for each in {*_left, self} if each._handles]
