"""Which module runs: by PyTorch's global hooks, which hang on no module."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from backsight.recording import traced
from backsight.recording.called import called
from backsight.recording.observed import Observed
from backsight.recording.tables import Tables
from backsight.tape import no_torch_function, uncompiled

_UNNAMED = None, None


class ModuleCalls:
    """Follows the calls of modules while it is attached.

    entered: called, before anything else, with each module that no other one called.
    ended: called with the path of a module, what it was given, and what it returned.

    Paths are those within the model that the program calls; the first model has no name, later ones have their class's.
    """

    def __init__(self, entered: Callable[[torch.nn.Module], None], ended: Callable[[str, Any, Any], None]):
        self.models: dict[str, weakref.ref[torch.nn.Module]] = {}
        self.observed = Observed(self.models, whole_program=True)
        self._entered, self._ended = entered, ended
        self._paths: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}
        self._named: dict[str, tuple[weakref.ref[torch.nn.Module] | None, str | None]] = {}
        self._local = threading.local()
        self._tables = Tables(
            (
                lambda: register_module_forward_pre_hook(self._enter),
                lambda: register_module_forward_hook(self._exit, always_call=True),
            ),
            "modules",
        )

    def attach(self) -> None:
        self._tables.attach(wait=True)

    def detach(self) -> None:
        self._tables.detach()
        self._local = threading.local()

    @property
    def path(self) -> str:
        """The path of the module that runs in this thread; empty if none does, or the model itself."""
        stack = self._stack()
        return stack[-1] if stack else ""

    @property
    def inside(self) -> bool:
        """Whether a module runs in this thread."""
        return bool(self._stack())

    def meet(self, model: torch.nn.Module) -> None:
        """Take the names of the modules in a model."""
        name = "" if not self.models else self._free(type(model).__name__)
        self.models[name] = weakref.ref(model)
        for path, module in self.observed.modules():
            held = self._paths.get(id(module))
            if held is None or held[0]() is not module:
                self._paths[id(module)] = weakref.ref(module), path

    def variables(self) -> dict[str, str]:
        """Return what the program calls each model that a variable holds, by its name here; each name once.

        What only an optimizer holds has the name of its variable already. No model is looked for twice.
        """
        new = {
            name: model
            for name, held in self.models.items()
            if self._named.get(name, _UNNAMED)[0] is not held and (model := held()) is not None
        }
        for name, variable in zip(new, called([*new.values()]), strict=True):
            self._named[name] = self.models[name], variable
        found = {place.name: place.name for place in self.observed.held}
        for name, (_, variable) in self._named.items():
            if variable is not None and variable not in found.values():
                found[name] = variable
        return found

    def _free(self, name: str) -> str:
        free, number = name, 2
        while (held := self.models.get(free)) is not None and held() is not None:
            free, number = f"{name}_{number}", number + 1
        return free

    def _stack(self) -> list[str]:
        stack: list[str] | None = getattr(self._local, "stack", None)
        if stack is None:
            stack = self._local.stack = []
        return stack

    @uncompiled
    def _enter(self, module: torch.nn.Module, args: Any) -> None:
        if is_compiling() or traced():
            return
        with no_torch_function():
            held = self._paths.get(id(module))
            if held is None or held[0]() is not module:
                self.meet(module)
                held = self._paths.get(id(module))
            stack = self._stack()
            if not stack:
                self._entered(module)
            stack.append(held[1] if held is not None else type(module).__name__)

    @uncompiled
    def _exit(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        stack = self._stack()
        if is_compiling() or traced() or not stack:
            return
        path = stack.pop()
        with no_torch_function():
            self._ended(path, args, output)
