"""Findings of a long run: looked for in a thread of their own, as long as somebody asks for them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from backsight.viewer.question import Answer

FORGOTTEN = 5.0
"""Seconds after which nobody is taken to wait any more: whoever waits asks several times a second."""

LOOK = 0.2
"""Seconds between two signs of life of somebody who waits here until it is done."""

Told = Callable[[int, int], None]
"""Called with how many tensors have been read, and of how many."""


class Forgotten(Exception):
    """Nobody has asked for a while."""


class Search:
    """Looks for something in a thread; ended when nobody waits for it.

    look: finds the answer, and calls what it is given as it goes on.
    """

    def __init__(self, look: Callable[[Told], Answer]):
        self._look = look
        self._asked = time.monotonic()
        self._read, self._of = 0, 0
        self._ended = threading.Event()
        self._answer: Answer | None = None
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="backsight-findings", daemon=True).start()

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    @property
    def failed(self) -> bool:
        """Whether it has ended without an answer, so that it has to begin anew."""
        return self.ended and self._answer is None

    def answer(self, patience: float = math.inf) -> Answer:
        """Wait so many seconds for the answer; after that return `pending`, how many tensors were read, of how many.

        Raises:
            Forgotten: if it had ended before this was called, as nobody had asked for it.
            Exception: what else was raised in the search.
        """
        until = time.monotonic() + patience
        while True:
            self._asked = time.monotonic()
            if self._ended.wait(max(0.0, min(LOOK, until - self._asked))):
                break
            if time.monotonic() >= until:
                return {"pending": [self._read, self._of]}
        if self._answer is None:
            raise self._error or Forgotten()
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = self._look(self._told)
        except Exception as error:  # raised again where it was asked for
            self._error = error
        finally:
            self._ended.set()

    def _told(self, read: int, of: int) -> None:
        self._read, self._of = read, of
        if time.monotonic() - self._asked > FORGOTTEN:
            raise Forgotten
