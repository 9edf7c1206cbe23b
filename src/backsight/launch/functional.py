"""Training without an optimizer, by `torch.func`: weights in a dict are trained, and the model is evaluated."""

from __future__ import annotations

import weakref
from types import CodeType
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from backsight.diagnosis import Finding
from backsight.diagnosis.modes import is_evaluation
from backsight.diagnosis.program import program_frames
from backsight.diagnosis.stale_copies import Held, held, never_updated
from backsight.launch.sign import Sign, caller
from backsight.launch.voice import failed
from backsight.naming.roots import ours
from backsight.tape import (
    is_jit_traced,
    modules_in,
    no_torch_dispatch,
    no_torch_function,
    registered,
    uncompiled,
    unnumbered,
)
from backsight.tracing import Watch, has_compiled
from backsight.tracing.changes import version

_CALLS = 4
"""Calls with other weights before evaluations are looked at."""

_MOST = 64
"""Evaluations that are looked at."""

_ENOUGH = 2
"""Evaluations between which the dict has changed, and the model has not."""


class Functional(Sign):
    """Looks at the calls without gradients of a model that `functional_call` gives other weights than its own.

    The hook that sees them is there from then on, until an optimizer steps or enough was seen.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._calls: dict[int, tuple[weakref.ref[torch.nn.Module], int]] = {}
        self._training: set[CodeType] = set()
        self._hook: Any = None
        self._looks = 0
        self._seen: dict[int, tuple[weakref.ref[torch.nn.Module], tuple[int, ...], Held, int]] = {}
        self._found: dict[int, Finding] = {}

    def returned(self, module: torch.nn.Module, given: Any, output: Any) -> None:
        if self._watch.steps.count or self._looks >= _MOST or not _is_given_weights(module):
            return
        known = self._calls.get(id(module))
        calls = known[1] + 1 if known is not None and known[0]() is module else 1
        self._calls[id(module)] = weakref.ref(module), calls
        if calls == 1:
            self._training |= {each.f_code for each in program_frames(caller())}
        if calls == _CALLS and self._hook is None and not has_compiled():
            with unnumbered():
                self._hook = register_module_forward_pre_hook(self._called)

    def run_doubled(self, step: Any) -> None:
        self._found.clear()
        self.stop()

    def stop(self) -> None:
        """Look at no more calls."""
        self._looks = _MOST
        hook, self._hook = self._hook, None
        if hook is not None:
            hook.remove()

    @property
    def findings(self) -> list[Finding]:
        return [found for key, found in self._found.items() if self._is_as_it_was(key)]

    def _is_as_it_was(self, key: int) -> bool:
        """Whether a model has not changed since, as it does where the dict is loaded at the end."""
        model, versions, _, _ = self._seen[key]
        module = model()
        return module is None or _versions(module) == versions

    @uncompiled
    def _called(self, module: torch.nn.Module, args: Any) -> None:
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or is_jit_traced():
            return
        known = self._calls.get(id(module))
        if known is None or known[0]() is not module or self._looks >= _MOST:
            return
        try:
            with no_torch_function(), no_torch_dispatch():
                self._look(module)
        except BaseException as failure:  # of ours: no failure of the program
            self.stop()
            failed("models without an optimizer are no longer checked", ours(failure))

    def _look(self, module: torch.nn.Module) -> None:
        """Compare a model that is evaluated, and the dict of its weights, with what both were at the last look."""
        self._looks += 1
        if _is_given_weights(module):  # what is trained is evaluated; the model itself may be what it is compared with
            self._found.clear()
            self.stop()
            return
        if not is_evaluation(caller(), self._training):
            return
        weights, versions = held(module), _versions(module)
        before = self._seen.get(id(module))
        if before is not None and (before[0]() is not module or before[1] != versions):
            self._found.pop(id(module), None)
            before = None
        if weights is None:
            return
        times = before[3] + 1 if before is not None and before[2].values != weights.values else 0
        self._seen[id(module)] = weakref.ref(module), versions, weights, times
        if times >= _ENOUGH - 1 and id(module) not in self._found:
            self._found[id(module)] = never_updated(module, weights, caller())


def _is_given_weights(module: torch.nn.Module) -> bool:
    """Whether what a module has for parameters now are other tensors, which `functional_call` has put there."""
    every = (each for _, inner in modules_in(module) for each in registered(inner, "_parameters").values())
    return any(each is not None and type(each) is not torch.nn.Parameter for each in every)


def _versions(module: torch.nn.Module) -> tuple[int, ...]:
    """Return the versions of the parameters of a module, and where they are: `.data = ` changes that."""
    every = (each for _, inner in modules_in(module) for each in registered(inner, "_parameters").values())
    held = (each for each in every if isinstance(each, torch.Tensor))
    return tuple(number for each in held for number in (id(each), version(each), each.data_ptr()))
