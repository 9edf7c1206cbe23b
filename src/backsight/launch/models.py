"""The models of a program, found as they are first called."""

from __future__ import annotations

import os
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from backsight.naming import search
from backsight.recording._torch import CALL

MOST = 32
"""Models of one program; what makes new modules for every step is not followed any further."""

NAMELESS = 2
"""Modules of one type, without parameters or a name, after which no name is looked for any more: to look takes a tenth
of a second, and `nn.MSELoss()(y, t)` makes a new one in every step."""

_TORCH = os.path.dirname(torch.__file__) + os.sep

_HELD = ("local", "global", "closure", "attribute", "item", "module")
"""Kinds of names that are a variable of the program, or an expression from one."""

Found = Callable[[str, torch.nn.Module, tuple[Any, ...]], None]


class Models:
    """Tells of each module that is called by the program itself and not by another module, when that happens first.

    `found` is called with the name of the variable that holds it, the module, and what it is being called with. What
    has no parameters, as a loss function, counts only if a variable holds it. `failed` is called with what goes wrong,
    and then nothing more is told.
    """

    def __init__(self, found: Found, failed: Callable[[Exception], None]):
        self._found, self._failed = found, failed
        self._known: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._named: dict[str, weakref.ref[torch.nn.Module]] = {}
        self._nameless: Counter[type] = Counter()
        self._count = 0
        self._handle = register_module_forward_pre_hook(self._called)

    def stop(self) -> None:
        """Remove the hook."""
        self._handle.remove()

    def _called(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        # torch.compile traces hooks: this line makes them vanish from what it compiles instead of breaking it.
        if torch.compiler.is_compiling():
            return
        known = self._known.get(id(module))
        if known is not None and known() is module:
            return
        try:
            self._meet(module, args, inner=_is_inner(sys._getframe(1)))
        except Exception as failure:  # a failure of ours is not a failure of the program
            self.stop()
            self._failed(failure)

    def _meet(self, module: torch.nn.Module, args: tuple[Any, ...], inner: bool) -> None:
        key, known = id(module), self._known
        known[key] = weakref.ref(module, lambda _: known.pop(key, None))
        if inner or self._count >= MOST or "_is_replica" in vars(module):  # DataParallel makes replicas for each step
            return
        trained = any(True for _ in torch.nn.Module.parameters(module))
        if not trained and self._nameless[type(module)] >= NAMELESS:
            return
        path = _variable(module)
        if path is None and not trained:
            self._nameless[type(module)] += 1
            return
        self._count += 1
        name = self._free(path or type(module).__name__, module, trained)
        self._named[name] = known[key]
        self._found(name, module, args)

    def _free(self, name: str, module: torch.nn.Module, trained: bool) -> str:
        """Return the name, numbered if another model has it; a loss function made anew is the same one again."""
        free, number = name, 2
        while (holder := self._named.get(free)) is not None:
            if not trained and type(holder() or module) is type(module):
                break
            free, number = f"{name}_{number}", number + 1
        return free


def _variable(module: torch.nn.Module) -> str | None:
    """Return what the program calls a module: `generator`, or `critic` for what a method knows as `self.critic`."""
    for name in search([module], limit=8).names[0]:
        path = name.path.removeprefix("self.")
        of_torch = name.file is not None and name.file.startswith(_TORCH)  # whose functions are making the call
        inside = "._" in path  # the innards of something, such as the notes of a watch
        if name.kind in _HELD and path != "self" and not of_torch and not inside:
            return path
    return None


def _is_inner(frame: FrameType) -> bool:
    """Whether the module call that this frame is part of was made by another module."""
    calls = 0
    here: FrameType | None = frame
    while here is not None:
        calls += here.f_code is CALL
        if calls > 1:
            return True
        here = here.f_back
    return False
