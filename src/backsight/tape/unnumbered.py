"""Registering hooks without using up the numbers of the program's own.

PyTorch numbers all hooks of a process in one row. The numbers are keys of dicts that are saved with a model, so a model
whose hooks were registered after some of ours would be saved differently.

Source: torch/utils/hooks.py, `RemovableHandle`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.utils.hooks import RemovableHandle

_next = 2**40


@contextmanager
def unnumbered() -> Iterator[None]:
    """Give hooks that are registered within numbers that no program reaches."""
    global _next
    before = RemovableHandle.next_id
    RemovableHandle.next_id = _next
    try:
        yield
    finally:
        _next = RemovableHandle.next_id
        RemovableHandle.next_id = before
