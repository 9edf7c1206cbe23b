"""The thread whose training is followed, where a program trains in several at once."""

from __future__ import annotations

import threading


class OneThread:
    """Knows the thread that made a step first; once it has ended, the next one that makes a step.

    A gradient is read in the thread that trains with it, and in no other: the backward of another thread replaces it
    without Python's lock (`accumulateGrad` in PyTorch's torch/csrc/autograd/functions/accumulate_grad.h), and who reads
    `.grad` meanwhile ends the program with a segmentation fault.
    """

    def __init__(self) -> None:
        self._ident = 0
        self._thread: threading.Thread | None = None

    def steps_here(self) -> bool:
        """Whether a step in this thread is one of those to be followed."""
        this = threading.get_ident()
        if this != self._ident and (self._thread is None or not self._thread.is_alive()):
            self._ident, self._thread = this, threading.current_thread()
        return this == self._ident

    def is_here(self) -> bool:
        """Whether this is that thread, or none has made a step."""
        return self._thread is None or threading.get_ident() == self._ident
