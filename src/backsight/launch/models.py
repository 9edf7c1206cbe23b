"""The models of a program, found as they are first called."""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from backsight.recording import CALL, keywords, registered, traced
from backsight.recording.called import lasting
from backsight.recording.hook import turn
from backsight.recording.nested import tensors_in
from backsight.recording.observed import Observed
from backsight.recording.tables import Tables
from backsight.tape import no_torch_function, uncompiled

MOST = 32
"""Models of one program; what makes new modules for every step is not followed any further."""

NAMELESS = 2
"""Modules of one type that no variable holds for long, after which no name is looked for any more: to look takes a
tenth of a second, and `nn.MSELoss()(y, t)` makes a new one in every step."""

DEEPEST = 8
"""Wrappers around one another that are looked into."""

Found = Callable[[str, torch.nn.Module, tuple[Any, ...], dict[str, Any]], None]


class Models:
    """Tells of each module that is called by the program itself and not by another module, when that happens first.

    `found` is called with the name of the variable that holds it, the module, and what it is being called with. What
    has no parameters, as a loss function, counts only if a variable holds it, and where it is given something that
    requires a gradient: what prepares data is no model.

    A module that is gone before what it wraps, as those that solvers make around a function for each call, gives way to
    what it wraps. One that no variable holds counts from the second step on, if it is still there. `failed` is called
    with what goes wrong, and then nothing more is told. `steps` returns how many steps have ended.
    """

    def __init__(self, found: Found, failed: Callable[[Exception], None], steps: Callable[[], int] = lambda: 0):
        self._found, self._failed, self._steps = found, failed, steps
        self._known: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._passed: dict[int, int] = {}
        """Those that gave way to what they call, each with the step in which that was."""
        self._named: dict[str, weakref.ref[torch.nn.Module]] = {}
        self._nameless: Counter[type] = Counter()
        self._count = 0
        self.left_out = 0
        """How many with parameters were called after so many that no more were told of."""
        self._tables = Tables((lambda: register_module_forward_pre_hook(self._called),), "modules")
        self._stopped = False
        self.attach()

    def attach(self) -> None:
        """Look at calls."""
        if not self._stopped:
            self._tables.attach()

    def detach(self) -> None:
        """Look at no calls until `attach`."""
        self._tables.detach()

    def stop(self) -> None:
        """Look at no calls any more."""
        self._stopped = True
        self.detach()

    @uncompiled
    def _called(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        # torch.compile traces hooks: this line makes them vanish from what it compiles instead of breaking it.
        if torch.compiler.is_compiling() or self._stopped:
            return
        known = self._known.get(id(module))
        if known is not None and known() is module and not (self._passed and self._returns(module)):
            return
        if traced():  # whatever is asked of a tensor would be part of the trace
            return
        try:
            caller = sys._getframe(1)
            with turn, no_torch_function():
                self._meet(module, args, keywords(caller), _around(caller))
        except Exception as failure:  # a failure of ours is not a failure of the program
            self.stop()
            self._failed(failure)

    def _returns(self, module: torch.nn.Module) -> bool:
        """Whether this module gave way in an earlier step, and was not gone with that."""
        return self._steps() > self._passed.get(id(module), sys.maxsize)

    def _meet(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], around: list[torch.nn.Module]
    ) -> None:
        trained = any(Observed({"": weakref.ref(module)}).places("_parameters"))  # `parameters` could be overridden
        if not trained and not _in_a_graph(args, kwargs):
            return
        returned = self._know(module)
        inner = any(id(outer) not in self._passed for outer in around)
        if inner or "_is_replica" in vars(module):  # DataParallel makes replicas for each step
            return
        if self._count >= MOST:
            self.left_out += trained
            return
        name = None if self._nameless[type(module)] >= NAMELESS else self._name(module)
        if name is None:
            self._nameless[type(module)] += 1
            if trained and not returned:
                self._passed[id(module)] = self._steps()
            if not trained or not returned:
                return
        self._count += 1
        name = self._free(name or type(module).__name__, module, trained)
        self._named[name] = self._known[id(module)]
        self._found(name, module, args, kwargs)

    def _know(self, module: torch.nn.Module) -> bool:
        """Remember a module; return whether it was passed over before."""
        key, known, passed = id(module), self._known, self._passed

        def forget(_: object) -> None:
            known.pop(key, None)
            passed.pop(key, None)

        again = key in known and known[key]() is module
        if not again:
            passed.pop(key, None)
            known[key] = weakref.ref(module, forget)
        return again and passed.pop(key, None) is not None

    def _name(self, module: torch.nn.Module) -> str | None:
        """Return what the program calls a module; None if what it wraps outlives it, or it has no name."""
        held, *inner = lasting([module, *_wrapped(module)])
        return None if any(each.outlasts(held) for each in inner) else held.name

    def _free(self, name: str, module: torch.nn.Module, trained: bool) -> str:
        """Return the name, numbered if another model has it; a loss function made anew is the same one again."""
        free, number = name, 2
        while (holder := self._named.get(free)) is not None:
            if not trained and type(holder() or module) is type(module):
                break
            free, number = f"{name}_{number}", number + 1
        return free


def _wrapped(module: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the modules inside that have all its parameters, outer ones first; none of what PyTorch itself wraps."""
    found: list[torch.nn.Module] = []
    while not type(module).__module__.startswith("torch.") and len(found) < DEEPEST:
        own = [parameter for parameter in registered(module, "_parameters").values() if parameter is not None]
        children = {id(child): child for child in registered(module, "_modules").values() if child is not None}
        trained = [child for child in children.values() if any(True for _ in torch.nn.Module.parameters(child))]
        if own or len(trained) != 1:
            break
        module = trained[0]
        found.append(module)
    return found


def _in_a_graph(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether something that a module is given requires a gradient."""
    return any(tensor.requires_grad for _, tensor in tensors_in((args, kwargs), ""))


def _around(frame: FrameType) -> list[torch.nn.Module]:
    """Return the modules whose calls are around the one that this frame is part of."""
    calls = []
    here: FrameType | None = frame
    while here is not None:
        if here.f_code is CALL:
            calls.append(here.f_locals["self"])
        here = here.f_back
    return calls[1:]
