"""A hook of ours: what it raises goes to us, one runs at a time, and what it costs is counted."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

from torch.compiler import is_compiling

from backsight.naming.roots import ours
from backsight.recording._torch import note_trace
from backsight.recording.cost import Cost
from backsight.tape import no_torch_function, uncompiled

turn = threading.RLock()
"""Whoever holds it writes; models may be trained in several threads, and a step may end in any of them."""

if hasattr(os, "register_at_fork"):  # so that no other thread holds it in a child, and nothing there is half written
    os.register_at_fork(before=turn.acquire, after_in_parent=turn.release, after_in_child=turn.release)


class Hook:
    """Calls `take` with what PyTorch gives to a hook; what it raises goes to `failed` and never to the training.

    Hooks hang in PyTorch's global tables, and on parameters, where `deepcopy`, `pickle` and TorchScript do not look:
    never on modules or optimizers.
    """

    __slots__ = ("_cost", "_failed", "_take")

    def __init__(self, take: Callable[..., None], failed: Callable[[Exception], None], cost: Cost):
        self._take, self._failed, self._cost = take, failed, cost

    @uncompiled
    def __call__(self, *args: Any) -> None:
        # torch.compile traces hooks: this line makes them vanish from what it compiles instead of breaking it.
        if is_compiling():
            note_trace()
            return
        began = perf_counter()
        try:
            with turn, no_torch_function():  # of the program's modes and subclasses none is to see us look
                self._take(*args)
        except Exception as failure:  # a failure of ours is not a failure of the training
            self._failed(ours(failure))
        self._cost.add(perf_counter() - began)
