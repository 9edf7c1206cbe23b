"""Parameters that the program freezes and unfreezes, and whether that does what it is meant to do."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from backsight.diagnosis import Finding
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.modes import attribute_alone, left_frozen, thawed
from backsight.diagnosis.still_moving import Zeroing, rows_moving, still_moving, zeroing
from backsight.launch.sign import Sign, Step
from backsight.naming import search
from backsight.snapshot import groups
from backsight.source import Place
from backsight.tape import Living, is_captured, parameters_in
from backsight.tape.saved import is_readable
from backsight.tracing.changes import version
from backsight.tracing.steps import parameters

_FIRST = 4
"""The step of an optimizer at which is looked first."""

_MOST = 4096
_BETWEEN = 64
"""Steps after which is looked again, where something was frozen."""


class Attributes(Sign):
    """Looks for `requires_grad` of a module itself, at each doubling of the steps."""

    def __init__(self) -> None:
        self._found: dict[str, Finding] = {}

    def run_doubled(self, step: Step) -> None:
        for model in step.models:
            found = attribute_alone(model, step.number, step.caller())
            if found is not None:
                self._found.setdefault(found.title, found)


@dataclass(slots=True)
class _Trained:
    """The ids of the parameters of an optimizer that had a gradient when its number of steps had doubled; and of those
    of which was told that they stay frozen."""

    trained: set[int]
    frozen: set[int]


class LeftFrozen(Sign):
    """Looks whether what was trained until the last doubling of an optimizer's steps is frozen since."""

    def __init__(self) -> None:
        self._trained: Living[_Trained] = Living()
        self._found: dict[int, Finding] = {}

    def doubled(self, step: Step) -> None:
        if step.steps < _FIRST:
            return
        known = self._trained.at(step.key)
        if known is None:
            known = _Trained(set(), set())
            self._trained.put(step.key, step.optimizer, known)
        held = parameters(step.optimizer)
        frozen = [p for p in held if id(p) in known.trained and not p.requires_grad]
        known.trained = {id(p) for p in held if p.requires_grad and p.grad is not None}
        found = left_frozen(step.optimizer, frozen, step.number, step.caller()) if frozen else None
        if found is not None:
            known.frozen = {id(p) for p in frozen}
            self._found[step.key] = found
        elif any(p.requires_grad for p in held if id(p) in known.frozen):
            self._found.pop(step.key, None)


@dataclass(slots=True)
class _Frozen:
    """A parameter that was seen frozen; once it is not, since which step, and its version then."""

    parameter: weakref.ref[torch.Tensor]
    since: int = 0
    version: int = 0


class Thawed(Sign):
    """Follows the parameters of the models that were called, and whether anything moves them once they are unfrozen."""

    def __init__(self) -> None:
        self._frozen: dict[int, _Frozen] = {}
        self._finding: tuple[Finding, list[_Frozen]] | None = None

    def each_step(self, step: Step) -> None:
        is_doubling = not step.number & (step.number - 1)
        if step.steps >= _FIRST and (is_doubling or (self._frozen and step.number % _BETWEEN == 0)):
            self._look(step)

    def told(self, known: Sequence[Finding]) -> list[Finding]:
        """Return what has not moved to the end; an audit may know what was left out of an optimizer, and say more."""
        if self._finding is None or any(each.code == "BS101" and each.severity != "note" for each in known):
            return []
        held = [(p, known) for known in self._finding[1] if (p := known.parameter()) is not None]
        return [self._finding[0]] if all(version(p) == known.version for p, known in held) else []

    def _look(self, step: Step) -> None:
        still = []
        for parameter in (p for model in step.models for p in parameters_in(model)):
            known = self._frozen.get(id(parameter))
            if not parameter.requires_grad:
                if len(self._frozen) < _MOST or known is not None:
                    self._frozen[id(parameter)] = _Frozen(weakref.ref(parameter))
            elif known is not None and known.parameter() is parameter and parameter.grad is not None:
                if not known.since:
                    known.since, known.version = step.number, version(parameter)
                elif version(parameter) != known.version:
                    del self._frozen[id(parameter)]
                else:
                    still.append((parameter, known))
        if still and self._finding is None:
            since = min(known.since for _, known in still)
            held = {id(p) for optimizer in step.stepping(since) for p in parameters(optimizer)}
            lost = [(p, known) for p, known in still if id(p) not in held]
            found = thawed([p for p, _ in lost], step.optimizer, since, step.caller()) if lost else None
            self._finding = (found, [known for _, known in lost]) if found is not None else None


_SPACED = 8
"""Steps of an optimizer after which it is looked for frozen parameters that have a gradient,"""
_MOST_FROZEN = 4
"""how many of them are looked at,"""
_SAMPLE = 256
"""and values of each."""


class StillMoving(Sign):
    """Compares frozen parameters that have a gradient with what they were before the step."""

    def __init__(self) -> None:
        self._before: dict[int, list[tuple[weakref.ref[torch.Tensor], torch.Tensor]]] = {}
        self._found: dict[int, Finding] = {}

    def each_step(self, step: Step) -> None:
        before = self._before.pop(step.key, None)
        if before is not None and not is_captured():
            held = [(p, values) for ref, values in before if (p := ref()) is not None]
            moved = [p for p, values in held if _is_left(p) and not torch.equal(_values(p), values)]
            if moved:
                self._found[step.key] = still_moving(moved, step.optimizer, step.number, step.caller())
        elif not step.steps % _SPACED and step.key not in self._found and not is_captured():
            left = [p for p in parameters(step.optimizer) if _is_left(p)][:_MOST_FROZEN]
            if left:
                self._before[step.key] = [(weakref.ref(p), _values(p).clone()) for p in left]


def _is_left(parameter: torch.Tensor) -> bool:
    """Whether a parameter is frozen and has a gradient of zeros: others may be those of a loss from before it was."""
    return (
        not parameter.requires_grad
        and parameter.grad is not None
        and is_readable(parameter)
        and bool(is_zero(parameter.grad))
    )


def _values(parameter: torch.Tensor) -> torch.Tensor:
    return parameter.detach().reshape(-1)[:_SAMPLE]


@dataclass(slots=True)
class _Rows:
    """Rows of a parameter without a gradient, and their values before a step."""

    parameter: weakref.ref[torch.Tensor]
    name: str
    place: Place
    rows: torch.Tensor
    values: torch.Tensor


class RowsMoving(Sign):
    """Compares rows whose gradient the program sets to zero with what they were before the step."""

    def __init__(self) -> None:
        self._before: dict[int, _Rows] = {}
        self._found: dict[int, Finding] = {}

    def each_step(self, step: Step) -> None:
        before = self._before.pop(step.key, None)
        parameter = before.parameter() if before is not None else None
        if before is not None and parameter is not None and not is_captured():
            still = before.rows & _without_gradient(parameter)
            moved = still[before.rows] & _differ(parameter.detach()[before.rows], before.values)
            if count := int(moved.sum()):
                frame = step.caller()
                self._found[step.key] = rows_moving(
                    before.name, before.place, step.optimizer, count, step.number, frame
                )
        elif step.steps == _SPACED and not is_captured() and any(g.get("weight_decay") for g in groups(step.optimizer)):
            for each in zeroing(step.caller()):
                self._begin(step, each)

    def _begin(self, step: Step, zeroing: Zeroing) -> None:
        held = [p for p in parameters(step.optimizer) if p.requires_grad]
        names = [[name.path for name in each] for each in search(held).names]
        fitting = [(p, n[0]) for p, n in zip(held, names, strict=True) if n and (zeroing.path in n or len(held) == 1)]
        if len(fitting) != 1 or fitting[0][0].dim() < 1 or not is_readable(fitting[0][0]):
            return
        parameter, name = fitting[0]
        zeroed = zeroing.rows(step.caller(), len(parameter))
        if zeroed is None:
            return
        rows = zeroed.to(parameter.device) & _without_gradient(parameter)
        if rows.any() and not rows.all():
            values = parameter.detach()[rows].clone()
            self._before[step.key] = _Rows(weakref.ref(parameter), name, zeroing.place, rows, values)


def _without_gradient(parameter: torch.Tensor) -> torch.Tensor:
    gradient = parameter.grad
    if gradient is None or gradient.layout != torch.strided or not is_readable(gradient):
        return torch.zeros(len(parameter), dtype=torch.bool, device=parameter.device)
    return (gradient.detach().reshape(len(parameter), -1) == 0).all(1)


def _differ(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one != other).reshape(len(one), -1).any(1)
