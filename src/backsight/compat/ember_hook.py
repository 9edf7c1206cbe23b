"""A hook whose copies do nothing: `deepcopy` and `pickle` of an observed model carry nothing of ours."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

import torch
from torch.compiler import is_compiling

from backsight.recording import note_trace, registered
from backsight.tape import uncompiled


class Hook:
    """Calls `take` with what PyTorch gives to a hook; what it raises goes to `failed` and never to the training.

    PyTorch keeps hooks in the tables of the module itself, where `deepcopy` and `pickle` find them.
    """

    __slots__ = ("_failed", "_take")

    def __init__(self, take: Callable[..., None], failed: Callable[[Exception], None]):
        self._take = take
        self._failed = failed

    @uncompiled
    def __call__(self, *args: Any) -> None:
        # torch.compile traces hooks: this line makes them vanish from what it compiles instead of breaking it.
        if is_compiling():
            note_trace()
            return
        try:
            self._take(*args)
        except Exception as failure:  # a failure of ours is not a failure of the training
            self._failed(failure)

    @property
    def __name__(self) -> str:
        # Who asks is torch.jit.script, which compiles hooks (torch/jit/_recursive.py, `get_hook_stubs`) and needs of
        # each the exact types of its module's inputs and outputs. Whoever can do without a name gets none, as before.
        raise AttributeError(
            "TorchScript would have to compile the hooks of torchEmber, which is recording this model: call "
            "model.disarm() before torch.jit.script(model)."
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Spent:
        return Spent()

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing()


class Spent:
    """What a deep copy of a model has in place of a hook; removes itself when it is first called."""

    __slots__ = ()

    @uncompiled
    def __call__(self, module: Any, *args: Any) -> None:
        if is_compiling() or not isinstance(module, torch.nn.Module):
            return
        for name in ("_forward_pre_hooks", "_forward_hooks"):
            table, with_kwargs = registered(module, name), registered(module, f"{name}_with_kwargs")
            for key in [key for key, hook in table.items() if hook is self]:
                del table[key]
                with_kwargs.pop(key, None)

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing()


def _nothing() -> tuple[Any, ...]:
    """Return, for `__reduce__`, a call of the standard library that takes any arguments and returns None.

    A pickle cannot leave out an entry of a dict, and has to load where backsight is not installed. `Logger.log` at
    level 0 is below every threshold.
    """
    return functools.partial, (logging.getLogger("torch.nn").log, 0)
