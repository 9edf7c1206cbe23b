"""Threads that build tuples all the time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def tuples_being_built(of: Callable[[], object]) -> Iterator[None]:
    """Have four threads build tuples of what `of` returns, and see that none fails.

    A tuple of an iterator is cut to its length at its end, which fails if anybody else holds it by then.
    """
    stop, failed = threading.Event(), []

    def build() -> None:
        try:
            while not stop.is_set():
                tuple(of() for _ in range(1000))
        except SystemError as error:
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=build) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    assert failed == []
