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

Taken = tuple[torch.nn.Module, Callable[..., None], Callable[..., None] | None]
"""A module, and what to call when it is called, and when it returns."""

_Known = dict[int, tuple[weakref.ref[torch.nn.Module], Callable[..., None]]]


class _CallHook(PageHook):
    """Calls what was chosen for the module that is called; other modules cost a look into a dict."""

    __slots__ = ("_chosen",)

    def __init__(self, notebook: Notebook, failed: Callable[[Exception], None]):
        super().__init__(notebook, self.dispatch, failed)
        self._chosen: _Known = {}

    def choose(self, chosen: Iterable[tuple[torch.nn.Module, Callable[..., None] | None]]) -> None:
        self._chosen = {id(module): (weakref.ref(module), take) for module, take in chosen if take is not None}

    def knows(self, module: torch.nn.Module) -> bool:
        known = self._chosen.get(id(module))
        return known is not None and known[0]() is module

    def dispatch(self, page: Any, module: torch.nn.Module, *args: Any) -> None:
        self._chosen[id(module)][1](page, module, *args)


class _Enter(_CallHook):
    __slots__ = ()

    def __call__(self, *args: Any) -> None:
        if is_compiling():
            note_trace()
        elif self.knows(args[0]):
            notebook = self._notebook
            if notebook.arrived and notebook.begun is not None and torch.is_grad_enabled():
                with turn:
                    notebook.begun()
            if notebook.page is not None:
                super().__call__(*args, keywords(sys._getframe(1)))


class _Leave(_CallHook):
    __slots__ = ()

    def __call__(self, *args: Any) -> None:
        if is_compiling():
            note_trace()
        elif self.knows(args[0]):
            super().__call__(*args)


class ModuleCalls:
    """Calls back around the calls of modules, while attached.

    What a module is called with is taken before its own hooks run, and what it returns before they change it.
    """

    def __init__(self, notebook: Notebook, failed: Callable[[Exception], None]):
        self._enter, self._leave = _Enter(notebook, failed), _Leave(notebook, failed)
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

    def detach(self) -> None:
        """Remove the hooks."""
        self._tables.detach()

    def entered(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Tell of a call for which PyTorch had made up its list of hooks before these were attached."""
        if self._enter.knows(module):
            PageHook.__call__(self._enter, module, args, kwargs)
