"""The random generators of Python, NumPy and PyTorch: their state is taken, and put back.

What is not imported has no state, and is not imported for it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Put the random generators back at the end to what they were."""
    put_back = random_state()
    try:
        yield
    finally:
        put_back()


def random_state() -> Callable[[], None]:
    """Take the state of the random generators, on the CPU and on CUDA devices in use; return what puts it back."""
    python, numpy, torch = random.getstate(), sys.modules.get("numpy.random"), sys.modules.get("torch")
    legacy = numpy.get_state() if numpy else None
    generator = getattr(torch, "default_generator", None)  # missing while torch is being imported
    cpu = generator.get_state() if generator is not None else None
    cuda = torch.cuda.get_rng_state_all() if torch and cpu is not None and torch.cuda.is_initialized() else None

    def put_back() -> None:
        random.setstate(python)
        if numpy:
            numpy.set_state(legacy)
        if generator is not None:
            generator.set_state(cpu)
        if torch and cuda is not None:
            torch.cuda.set_rng_state_all(cuda)

    return put_back


class RandomStream:
    """The random numbers of something that runs in pieces: each goes on where the one before ended, as in one run.

    It begins as the random generators stand at the first piece. They stay as they are.
    """

    def __init__(self) -> None:
        self._go_on: Callable[[], None] | None = None

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Draw from this stream."""
        with random_state_kept():
            if self._go_on is not None:
                self._go_on()
            try:
                yield
            finally:
                self._go_on = random_state()
