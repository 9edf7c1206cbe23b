"""The models of a training, and whether they are in training mode."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.modes import BATCH_NORMS, DROPOUTS, untrained_mode
from backsight.launch.sign import Model, Sign, Step
from backsight.tape import modules_in, parameters_in
from backsight.tracing.steps import parameters

_ENOUGH = 3
"""Steps of a model that is not in training mode, and gets gradients."""

_MODAL: tuple[type[torch.nn.Module], ...] = (*DROPOUTS, *BATCH_NORMS)
_MOST_MODULES = 64
_MOST_MODELS = 8


@dataclass(slots=True)
class _Mode(Model):
    """Since which step nothing of a model is in training mode."""

    is_called: bool = False
    """Whether it was called since the last step that has trained it."""
    trained: bool = False
    off_since: int = 0
    confirmed: int = 0


class Modes(Sign):
    """Follows the modes of the models that were called."""

    def __init__(self) -> None:
        self.models: list[_Mode] = []
        self._found: dict[int, Finding] = {}

    def called(self, model: torch.nn.Module) -> None:
        """Note that a model that no other has called returned something with a graph, in the thread that trains."""
        mode = next((each for each in self.models if each.model() is model), None)
        if mode is None and len(self.models) < _MOST_MODELS:
            modal = [weakref.ref(m) for _, m in modules_in(model) if isinstance(m, _MODAL) and _acts(m)]
            mode = _Mode(weakref.ref(model), tuple(modal[:_MOST_MODULES]), threading.get_ident())
            self.models.append(mode)
        if mode is not None:
            mode.is_called = bool(mode.modal)

    def run_doubled(self, step: Step) -> None:
        if step.number == 1:  # what other threads have called is not of this training
            self.models[:] = [each for each in self.models if each.thread == threading.get_ident()]

    def each_step(self, step: Step) -> None:
        held: set[int] = set()
        for mode in self.models:
            if (model := mode.model()) is None:
                continue
            if model.__dict__.get("training", True):
                mode.trained = True
                mode.off_since = mode.confirmed = 0
                self._found.pop(id(mode), None)
            elif not mode.off_since:
                mode.off_since = step.number
                step.news |= mode.trained
            if mode.is_called:
                held = held or {id(p) for p in parameters(step.optimizer) if p.grad is not None}
                if any(id(p) in held for p in parameters_in(model)):
                    mode.is_called = False
                    self._confirm(mode, model, step)

    def _confirm(self, mode: _Mode, model: torch.nn.Module, step: Step) -> None:
        """Count a step of a model that was called with gradients, gets them, and is not in training mode."""
        modal = [m for ref in mode.modal if (m := ref()) is not None]
        if not mode.off_since or any(m.training for m in modal):
            return
        mode.confirmed += 1
        if mode.confirmed == _ENOUGH:
            found = untrained_mode(model, [*map(type, modal)], mode.off_since, mode.trained, step.caller())
            if found is not None:
                self._found[id(mode)] = found


def _acts(module: torch.nn.Module) -> bool:
    """Whether a dropout drops anything."""
    return bool(module.__dict__.get("p", 1.0))
