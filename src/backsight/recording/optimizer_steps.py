"""The steps of all optimizers, seen through PyTorch's global hooks: nothing hangs on the optimizers themselves."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch.compiler import is_compiling
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from backsight.recording._torch import note_trace
from backsight.recording.tables import Tables
from backsight.tape import uncompiled


class Listener(Protocol):
    """Who is told before and after an optimizer steps; neither may raise."""

    def stepping(self, optimizer: torch.optim.Optimizer) -> None: ...

    def stepped(self, optimizer: torch.optim.Optimizer) -> None: ...


_listeners: tuple[Listener, ...] = ()
"""Replaced and never changed: another thread may be walking through it."""


def listen(listener: Listener) -> None:
    """Tell of steps from now on."""
    global _listeners
    _listeners = (*(each for each in _listeners if each is not listener), listener)
    _tables.attach(wait=True)


def leave(listener: Listener) -> None:
    """Tell of no steps any more."""
    global _listeners
    _listeners = tuple(each for each in _listeners if each is not listener)
    if not _listeners:
        _tables.detach()


@uncompiled
def _before(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    if is_compiling():
        note_trace()
        return
    for each in _listeners:
        each.stepping(optimizer)


@uncompiled
def _after(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    if is_compiling():
        note_trace()
        return
    for each in _listeners:
        each.stepped(optimizer)


_tables = Tables(
    (lambda: register_optimizer_step_pre_hook(_before), lambda: register_optimizer_step_post_hook(_after)), "optimizers"
)
