"""Which module runs, now and at any moment of the step: by hooks on all modules, which leave no trace."""

from __future__ import annotations

import time
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from backsight.memory._torch import COMPILED
from backsight.memory.tensors import paths_in
from backsight.tape import Hushed, Models, next_sequence_number, registered, uncompiled

Met = Callable[[torch.nn.Module, str], None] | None
Called = Callable[[Any], None] | None


class ModuleCalls:
    """Follows the calls of all modules while it is entered.

    ```python
    with ModuleCalls(model) as calls:
        model(x)
    calls.at(some_time), calls.of_sequence(node._sequence_nr())    # paths, such as "blocks.0.mlp"
    ```

    The paths are those in `model`; a model that is not known yet is met when it is called, and its paths stand alone if
    it is the first, under the name of its class if not. `met` is told of each model, and `called` of the arguments of
    each call that no other module made. No model is kept alive: a step may build its own, which goes with it.
    """

    def __init__(self, model: Models = None, *, met: Met = None, called: Called = None):
        self._called = called
        self.path = ""
        """The module that runs now."""
        self.depth = 0
        self.classes: dict[str, str] = {}
        """The class of each module by its path."""
        self._models: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._paths: dict[int, str] = {}
        self._stack: list[str] = []
        self._times: list[int] = []
        self._sequences: list[int] = []
        self._changes: list[str | None] = []
        self._met = met
        self._hooks = ExitStack()
        named = {"": model} if isinstance(model, torch.nn.Module) else dict(model or {})
        for prefix, module in named.items():
            self.meet(module, prefix)

    def __enter__(self) -> ModuleCalls:
        for handle in (
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._exit, always_call=True),
        ):
            self._hooks.callback(handle.remove)
        self._hooks.callback(Hushed().remove)
        return self

    def __exit__(self, *raised: object) -> None:
        self._hooks.close()

    def forget(self) -> None:
        """Let go of the models; what was written down stays."""
        self._models.clear()
        self._paths.clear()

    def knows(self, model: torch.nn.Module) -> bool:
        """Whether a model was met."""
        return id(model) in self._models

    def meet(self, model: torch.nn.Module, prefix: str = "") -> None:
        """Take the names of the modules in `model`."""
        named = [(path, each) for path, each in paths_in(model, prefix) if id(each) not in self._paths]
        key, new = id(model), {id(each): path for path, each in named}
        self.classes |= {path: type(each).__name__ for path, each in named}
        self._models[key] = weakref.ref(model, lambda _: self._gone(key, new))
        if self._met is not None:
            self._met(model, prefix)
        self._paths |= new

    def _gone(self, model: int, modules: Iterable[int]) -> None:
        """Forget the ids of a model that is no more: others get them."""
        self._models.pop(model, None)
        for module in modules:
            self._paths.pop(module, None)

    def at(self, moment: int) -> str | None:
        """Return the path of the module that ran at this time (ns); None if none did."""
        found = bisect_right(self._times, moment)
        return self._changes[found - 1] if found else None

    def of_sequence(self, number: int) -> str:
        """Return the path of the module that made the autograd node of this sequence number; empty if none did."""
        found = bisect_right(self._sequences, number)
        return (self._changes[found - 1] or "") if found else ""

    @uncompiled
    def _enter(self, module: torch.nn.Module, args: Any) -> None:
        if is_compiling():
            return
        if id(module) not in self._paths:
            inner = registered(module, "_modules").get(COMPILED)
            if id(inner) in self._paths:
                self._paths[id(module)] = self._paths[id(inner)]
            else:
                self.meet(module, type(module).__name__ if self._models else "")
        if not self._stack and self._called is not None:
            self._called(args)
        self._stack.append(self._paths[id(module)])
        self._changed()

    @uncompiled
    def _exit(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if is_compiling() or not self._stack:
            return
        self._stack.pop()
        self._changed()

    def _changed(self) -> None:
        self.depth = len(self._stack)
        self.path = self._stack[-1] if self._stack else ""
        self._times.append(time.time_ns())
        self._sequences.append(max(next_sequence_number(), self._sequences[-1] if self._sequences else 0))
        self._changes.append(self.path if self._stack else None)
