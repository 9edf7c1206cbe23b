"""Marks: events of ours in PyTorch's trace, which tell the module that runs and the leaf whose gradient arrives."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from backsight.profiling._torch import accumulator, mark
from backsight.profiling.subjects import LeafName, Place, Subjects
from backsight.tape import Hushed, no_torch_dispatch, no_torch_function, uncompiled


class Marks:
    """Hooks that write marks, until `remove`; `modules` and `leaves` say what each mark means."""

    def __init__(self, subjects: Subjects):
        self.modules: dict[str, Place] = {}
        self.leaves: dict[str, LeafName] = {}
        self._text_of: dict[int, str] = {}
        self._held: list[Any] = []  # while these live no id can be given to another object, and no hook is lost
        self._handles: list[Any] = []
        self._running = threading.local()
        with no_torch_function(), no_torch_dispatch():  # no mode of the program is to see us look
            self._add(subjects)

    def install(self) -> None:
        """Register the hooks on modules, global ones: they are not copied or pickled with a model."""
        self._handles.append(Hushed())
        self._handles.append(register_module_forward_pre_hook(self._enter))
        self._handles.append(register_module_forward_hook(self._leave, always_call=True))

    def remove(self) -> None:
        """Remove every hook, and forget what was marked but for the names."""
        for handle in self._handles:
            handle.remove()
        self._handles, self._held, self._text_of = [], [], {}
        self._running = threading.local()

    def _add(self, subjects: Subjects) -> None:
        for module, place in subjects.modules:
            if id(module) not in self._text_of:
                self._held.append(module)
                text = _unused(f"module {place.full or type(module).__name__}", self.modules)
                self._text_of[id(module)] = text
                self.modules[text] = place
        for leaf, name in subjects.leaves:
            node = accumulator(leaf)
            if node is not None:
                text = _unused(f"gradient of {name.names[0]}", self.leaves)
                self.leaves[text] = name
                self._held.append(node)
                self._handles.append(node.register_prehook(_marking(text)))

    @uncompiled
    def _enter(self, module: torch.nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling():  # torch.compile traces hooks: this makes them vanish from what it compiles
            return
        calls = self._calls()
        if id(module) not in self._text_of:
            if calls or issubclass(type(module), torch.fx.GraphModule):  # what torch.compile runs is no module
                return
            self._add(Subjects.of({type(module).__name__: module}))  # made since the names were looked for
        begun = mark(self._text_of[id(module)])
        begun.__enter__()
        calls.append((module, begun))

    @uncompiled
    def _leave(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        calls = self._calls()
        if calls and calls[-1][0] is module:  # as nearly always
            calls.pop()[1].__exit__(None, None, None)
            return
        if all(running is not module for running, _ in calls):
            return
        while calls:  # a call that a KeyboardInterrupt ended has missed its exit
            running, begun = calls.pop()
            begun.__exit__(None, None, None)
            if running is module:
                return

    def _calls(self) -> list[tuple[torch.nn.Module, AbstractContextManager[Any]]]:
        """Return the module calls that are running in this thread, the outermost first."""
        try:
            calls: list[Any] = self._running.calls
        except AttributeError:  # the first in this thread
            calls = self._running.calls = []
        return calls


def _marking(text: str) -> Any:
    @uncompiled
    def note(gradients: Any) -> None:
        if not torch.compiler.is_compiling():
            with mark(text):
                pass

    return note


def _unused(text: str, taken: dict[str, Any]) -> str:
    number = 1
    candidate = text
    while candidate in taken:
        number += 1
        candidate = f"{text} #{number}"
    return candidate
