"""Models that are called without gradients between two steps, and in which mode."""

from __future__ import annotations

import weakref
from types import CodeType
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from backsight.diagnosis import Finding, Site
from backsight.diagnosis.modes import acting, always_on, dropping, in_training_mode, is_evaluation, is_trained
from backsight.diagnosis.program import program_frames
from backsight.launch.modes import Modes
from backsight.launch.sign import Sign, Step, caller, site
from backsight.launch.voice import failed
from backsight.naming.roots import ours
from backsight.source import Place
from backsight.tape import (
    Living,
    is_jit_traced,
    modules_in,
    no_torch_dispatch,
    no_torch_function,
    tensors_in,
    uncompiled,
    unnumbered,
)
from backsight.tracing import has_compiled
from backsight.tracing.steps import parameters

_CALLS = 8
"""Calls without gradients after one step that are looked at."""

_PASSES = 5
"""Calls with the same input after one step: who makes so many wants other values each time."""

_ENOUGH = 3
"""Evaluations in evaluation mode after which a model that was looked at is left alone."""


class Evaluating(Sign):
    """Looks after each step at the next calls, until one is made with gradients: a microsecond, mostly.

    The hook that sees them is there from a step to the first call with gradients. It is never there once something was
    compiled, which would be compiled anew.
    """

    def __init__(self, modes: Modes) -> None:
        self._modes = modes
        self._hook: Any = None
        self._training: frozenset[CodeType] = frozenset()
        self._steps = self._left = 0
        self._ids: set[int] = set()
        self._inner: set[int] = set()
        self._dropping: Living[list[tuple[Place, str, str]]] = Living()
        self._verdicts: dict[Site, bool] = {}
        self._found: dict[Site, Finding] = {}
        self._input: tuple[weakref.ref[Any] | None, int] = None, 0
        self._fine = 0
        self._meant = False
        self._known = -1
        self._is_worth_it = False

    def each_step(self, step: Step) -> None:
        self._unhook()
        if step.number == 1 or not step.steps & (step.steps - 1):
            frames = list(program_frames(step.caller()))
            self._training = frozenset(each.f_code for each in frames) | self._training
            self._ids = {id(p) for each in step.optimizers for p in parameters(each)}
            self._known = -1
        if self._known != len(self._modes.models):
            self._known, self._is_worth_it = len(self._modes.models), self._has_modes()
        if not self._is_worth_it or self._fine >= _ENOUGH or self._meant or has_compiled():
            return
        self._steps, self._left, self._input = step.number, _CALLS, (None, 0)
        self._inner.clear()
        with unnumbered():
            self._hook = register_module_forward_pre_hook(self._called)

    def stop(self) -> None:
        self._unhook()

    @property
    def findings(self) -> list[Finding]:
        return [] if self._meant else [*self._found.values()][:1]

    def _has_modes(self) -> bool:
        """Whether any model of the training computes something else in training mode."""
        return any(
            each.modal or self._drops(model) for each in self._modes.models if (model := each.model()) is not None
        )

    def _drops(self, model: torch.nn.Module) -> list[tuple[Place, str, str]]:
        found = self._dropping.at(id(model))
        if found is None:
            found = list(dropping(model))
            self._dropping.put(id(model), model, found)
        return found

    def _unhook(self) -> None:
        hook, self._hook = self._hook, None
        if hook is not None:
            hook.remove()

    @uncompiled
    def _called(self, module: torch.nn.Module, args: Any) -> None:
        if torch.compiler.is_compiling() or is_jit_traced():
            return
        try:
            if torch.is_grad_enabled():
                self._unhook()
                self._trains(site(caller()))
            elif id(module) not in self._inner:
                with no_torch_function(), no_torch_dispatch():
                    self._look(module, args)
        except BaseException as failure:  # of ours: no failure of the program
            self._meant = True
            self._unhook()
            failed("evaluations are no longer checked", ours(failure))

    def _trains(self, at: Site) -> None:
        """Note a place that calls a model with gradients: it evaluates nothing, such as the actions of a policy."""
        if self._verdicts.get(at) is not False:
            self._verdicts[at] = False
            self._found.pop(at, None)

    def _look(self, module: torch.nn.Module, args: Any) -> None:
        """Look at a call without gradients that no module makes."""
        self._left -= 1
        if self._left <= 0:
            self._unhook()
        self._inner |= {id(each) for _, each in modules_in(module)} - {id(module)}
        frame, modal = caller(), acting(module)
        at = site(frame)
        if not is_trained(module, self._ids):
            return
        if self._passes(args) >= _PASSES:
            self._meant = True
        elif modal and at not in self._found:
            if at not in self._verdicts:
                self._verdicts[at] = is_evaluation(frame, self._training)
            found = in_training_mode(module, self._steps, frame, self._training) if self._verdicts[at] else None
            if found is not None:
                self._found[at] = found
        elif not modal and not module.training:
            self._found.pop(at, None)
            if places := self._drops(module):
                self._found[at] = always_on(module, places, self._steps, frame)
            else:
                self._fine += 1

    def _passes(self, args: Any) -> int:
        """Return how many calls in a row had this input."""
        tensor = next(iter(tensors_in(args)), None)
        known, times = self._input
        if tensor is None:
            return 0
        times = times + 1 if known is not None and known() is tensor else 1
        self._input = weakref.ref(tensor), times
        return times
