"""Calls of chosen modules, seen through PyTorch's global hooks: nothing hangs on the modules themselves."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from backsight.recording._torch import keywords, note_trace
from backsight.recording.hook import turn
from backsight.recording.notebook import Notebook, PageHook
from backsight.recording.tables import Tables
from backsight.tape import no_torch_function, uncompiled

Taken = tuple[torch.nn.Module, Callable[..., None], Callable[..., None] | None]
"""A module, and what to call when it is called, and when it returns."""

_Known = dict[int, tuple[weakref.ref[torch.nn.Module], Callable[..., None]]]


class _CallHook(PageHook):
    """Calls what was chosen for the module that is called; other modules cost a look into a dict."""

    __slots__ = ("_chosen",)

    def __init__(self, notebook: Notebook, failed: Callable[[Exception], None]):
        super().__init__(notebook, _nothing, failed)
        self._chosen: _Known = {}

    def choose(self, chosen: Iterable[tuple[torch.nn.Module, Callable[..., None] | None]]) -> None:
        self._chosen = {id(module): (weakref.ref(module), take) for module, take in chosen if take is not None}


class _Enter(_CallHook):
    __slots__ = ("_by_keyword",)

    def __init__(self, notebook: Notebook, failed: Callable[[Exception], None], by_keyword: bool):
        super().__init__(notebook, failed)
        self._by_keyword = by_keyword

    @uncompiled
    def __call__(self, *args: Any) -> None:
        if is_compiling():
            note_trace()
            return
        known = self._chosen.get(id(args[0]))
        if known is not None and known[0]() is args[0]:
            notebook = self._notebook
            if notebook.arrived and notebook.begun is not None and torch.is_grad_enabled():
                with turn, no_torch_function():
                    notebook.begun()
            if notebook.writable():
                self.write(known[1], *args, keywords(sys._getframe(1)) if self._by_keyword else {})
        elif self._notebook.passed_by is not None:
            self._notebook.passed_by()

    def late(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Take a call by hand."""
        known = self._chosen.get(id(module))
        if known is not None and self._notebook.writable():
            self.write(known[1], module, args, kwargs)


class _Leave(_CallHook):
    __slots__ = ()

    @uncompiled
    def __call__(self, *args: Any) -> None:
        if is_compiling():
            note_trace()
            return
        known = self._chosen.get(id(args[0]))
        if known is not None and known[0]() is args[0] and self._notebook.writable():
            self.write(known[1], *args)


def _nothing(*args: Any) -> None:
    """What is called depends on the module."""


class ModuleCalls:
    """Calls back around the calls of modules, while attached.

    by_keyword: whether to tell what is given by keyword, for which PyTorch has to be asked in a way that costs.

    What a module is called with is taken before its own hooks run, and what it returns before they change it.
    """

    def __init__(self, notebook: Notebook, failed: Callable[[Exception], None], *, by_keyword: bool = True):
        self._enter, self._leave = _Enter(notebook, failed, by_keyword), _Leave(notebook, failed)
        self._tables = Tables(
            (
                lambda: register_module_forward_pre_hook(self._enter),
                lambda: register_module_forward_hook(self._leave),
            ),
            "modules",
        )

    def choose(self, chosen: Iterable[Taken]) -> None:
        """Call back for these modules from now on, and for no others."""
        taken = list(chosen)
        self._enter.choose((module, enter) for module, enter, _ in taken)
        self._leave.choose((module, leave) for module, _, leave in taken)

    def attach(self) -> bool:
        """Install the hooks; return whether they are there, as in `Tables`."""
        return self._tables.attach()

    @property
    def attached(self) -> bool:
        """Whether the hooks are there."""
        return self._tables.there

    def detach(self) -> None:
        """Remove the hooks."""
        self._tables.detach()

    def entered(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Tell of a call for which PyTorch had made up its list of hooks before these were attached."""
        self._enter.late(module, args, kwargs)
