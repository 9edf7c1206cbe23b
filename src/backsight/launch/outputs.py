"""What models return in the first steps of a training, and whether the loss has anything to do with it."""

from __future__ import annotations

import weakref
from types import FrameType
from typing import Any

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.live.deaf import indifferent, unheard
from backsight.launch.sign import Sign
from backsight.naming import search
from backsight.tape import tensors_in
from backsight.tape.saved import is_readable
from backsight.tracing.steps import parameters

_UNHEARD = 3
"""Steps in a row in which no gradient came back, before it is said: one may well be made without the model."""

_FEW = 3
"""Parameters that are named as what alone got a gradient."""

_SETTLED = 4
"""Steps after which rows are compared: a last layer that begins with zeros answers all rows alike at first."""

_ALIKE = 3
"""Steps in a row in which all rows are alike."""

_FEWEST = 4
"""Rows below which they may be alike by chance."""

_AGAIN = 16
"""Steps after which a model whose rows were alike is looked at again, and then at each doubling of them."""


class Outputs(Sign):
    """Notes, between two optimizer steps, which models returned something, and whether a gradient came back to it."""

    def __init__(self) -> None:
        self._found: list[Finding] = []
        self._steps = self._silent = self._alike = 0
        self._heard = False
        self._model: weakref.ref[torch.nn.Module] | None = None
        self._compared = False
        self._rows = 0
        self._suspect: weakref.ref[torch.nn.Module] | None = None
        self._stepped: weakref.ref[torch.optim.Optimizer] | None = None

    def returned(self, module: torch.nn.Module, given: Any, output: Any) -> None:
        if self._model is None:
            self._model = weakref.ref(module)
        if self._steps >= _SETTLED and not self._compared and not self._found:
            self._compared = True
            rows = _alike(given, output) if module.training else 0
            self._alike = self._alike + 1 if rows else 0
            self._rows = rows
            if self._alike == _ALIKE:
                made = next((t for t in tensors_in(output) if isinstance(t, torch.Tensor) and t.requires_grad), None)
                stepped = self._stepped() if self._stepped is not None else None
                self._found.append(indifferent(_name(module), rows, _ALIKE, made, stepped))
                self._suspect = weakref.ref(module)

    def is_due(self, step: int) -> bool:
        """Whether to look again, after so many steps: a spiking network may be silent at first, and learn."""
        return self._suspect is not None and step >= _AGAIN and step & (step - 1) == 0

    def returned_again(self, module: torch.nn.Module, output: Any) -> None:
        """Take back that all rows are alike, if they are no longer."""
        if self._suspect is not None and self._suspect() is module and _differ(output, self._rows):
            self._found.clear()
            self._suspect = None

    def heard(self) -> None:
        """Note that a gradient came back to something that a model returned."""
        self._heard = True

    def stepping(self, optimizer: torch.optim.Optimizer, step: int, changed: int, caller: FrameType) -> None:
        """Note that an optimizer is about to make the run's step number `step`, called from `caller`.

        changed: the step after which it is looked at again, as other parameters got a gradient in it.
        """
        self._steps += 1
        self._stepped = weakref.ref(optimizer)
        model = self._model() if self._model is not None else None
        self._silent = self._silent + 1 if model is not None and not self._heard else 0
        if self._silent == _UNHEARD and model is not None and not self._found:
            held = parameters(optimizer)
            with_gradient = [p for p in held if p.grad is not None]
            few = with_gradient if len(with_gradient) <= _FEW else []
            names = [next((name.path for name in found), "") for found in search(few, limit=1).names] if few else []
            self._found.append(
                unheard(
                    _name(model),
                    _UNHEARD,
                    caller,
                    since=changed if changed == step - _UNHEARD else step - _UNHEARD + 1,
                    reached=names if all(names) else (),
                    total=len(held),
                )
            )
        self._model, self._heard, self._compared = None, False, False


def _name(module: torch.nn.Module) -> str:
    names = search([module], limit=1).names[0]
    return names[0].path if names else type(module).__name__


def _alike(given: Any, output: Any) -> int:
    """Return the number of rows, if all of them are the same in what came out and not in what went in; else 0."""
    made = [t for t in tensors_in(output) if isinstance(t, torch.Tensor) and t.is_floating_point()]
    rows = made[0].shape[0] if made and made[0].dim() else 0
    inputs = [t for t in tensors_in(given) if isinstance(t, torch.Tensor) and t.dim() and t.shape[0] == rows]
    if rows < _FEWEST or not inputs or not all(map(_is_readable, (*made, *inputs))):
        return 0
    if not all(each.dim() and each.shape[0] == rows and _is_one(each) for each in made):
        return 0
    return 0 if all(map(_is_one, inputs)) else rows


def _differ(output: Any, rows: int) -> bool:
    """Whether the rows of something that was returned, as many as then, differ."""
    made = [t for t in tensors_in(output) if isinstance(t, torch.Tensor) and _is_readable(t)]
    return any(t.dim() > 0 and t.shape[0] == rows and not _is_one(t) for t in made)


def _is_readable(tensor: torch.Tensor) -> bool:
    return is_readable(tensor) and tensor.layout == torch.strided


def _is_one(tensor: torch.Tensor) -> bool:
    values = tensor.detach()
    return bool((values == values[:1]).all())
