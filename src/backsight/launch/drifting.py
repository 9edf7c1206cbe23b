"""Batch normalizations whose parameters are frozen, and whose running statistics go on changing."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.modes import BATCH_NORMS, drifting
from backsight.launch.sign import Sign, Step
from backsight.tape import registered
from backsight.tracing.changes import version

_FIRST = 4
"""The step of an optimizer at which is looked first."""


@dataclass(slots=True)
class _Norm:
    """What is known of one normalization."""

    norm: weakref.ref[torch.nn.Module]
    trained: bool = False
    frozen_since: int = 0
    weight: int = 0
    """The version of its weight when it was seen frozen first, "tracked" that of what counts its batches."""
    tracked: int = 0


class Drifting(Sign):
    """Follows the normalizations of the models that were called, at spaced steps: versions are read, no values."""

    def __init__(self) -> None:
        self._norms: dict[int, _Norm] = {}
        self._findings: dict[int, tuple[Finding, list[_Norm]]] = {}

    def doubled(self, step: Step) -> None:
        for each in step.called if step.steps >= _FIRST else ():
            norms = [m for ref in each.modal if isinstance(m := ref(), BATCH_NORMS)]
            if (model := each.model()) is not None:
                self._look(model, norms, step)

    def _look(self, model: torch.nn.Module, norms: Sequence[torch.nn.Module], step: Step) -> None:
        moved = [each for norm in norms if _has_moved(each := self._of(norm), norm, step.number)]
        alive = [norm for each in moved if (norm := each.norm()) is not None]
        if not alive:
            self._findings.pop(id(model), None)
        elif id(model) not in self._findings:
            trained = any(each.trained for each in moved)
            found = drifting(model, alive, moved[0].frozen_since, trained, step.caller())
            self._findings[id(model)] = found, moved

    @property
    def findings(self) -> list[Finding]:
        """What was frozen, and did not stay as it was, to the end."""
        return [found for found, moved in self._findings.values() if not any(map(_is_thawed, moved))]

    def _of(self, norm: torch.nn.Module) -> _Norm:
        known = self._norms.get(id(norm))
        if known is None or known.norm() is not norm:
            known = self._norms[id(norm)] = _Norm(weakref.ref(norm))
        return known


def _has_moved(known: _Norm, norm: torch.nn.Module, step: int) -> bool:
    """Whether the statistics have changed since the parameters were seen frozen, which nothing has trained since."""
    weight, counter = _weight(norm), registered(norm, "_buffers").get("num_batches_tracked")
    if weight is None or not isinstance(counter, torch.Tensor):
        return False
    if weight.requires_grad:
        known.trained |= weight.grad is not None
        known.frozen_since = 0
        return False
    if not known.frozen_since or version(weight) != known.weight:
        known.frozen_since, known.weight, known.tracked = step, version(weight), version(counter)
        return False
    return bool(norm.__dict__.get("training")) and version(counter) > known.tracked


def _is_thawed(known: _Norm) -> bool:
    norm = known.norm()
    weight = _weight(norm) if norm is not None else None
    return weight is not None and (weight.requires_grad or version(weight) != known.weight)


def _weight(norm: torch.nn.Module) -> torch.Tensor | None:
    weight = registered(norm, "_parameters").get("weight")
    return weight if isinstance(weight, torch.Tensor) else None
