"""What is trained in a trial of `backsight fix`: which parameters the steps of their optimizers move."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from backsight.naming import search
from backsight.snapshot import groups
from backsight.tape import Living, is_captured, no_torch_dispatch, no_torch_function, unnumbered
from backsight.traces.fingerprints import fingerprint
from backsight.tracing.steps import parameters

_FOLLOWED = 8
"""Optimizers of which it is noted what they train."""

_NAMED = 8
"""Parameters of each of them that are named if they do not move at once."""


@dataclass(slots=True)
class _Held:
    """A parameter of an optimizer: its bits before the first step, and whether a gradient was not 0 in one."""

    bits: bytes | None
    pulled: bool = False
    moved: bool = False
    name: str = ""


@dataclass(slots=True)
class _Course:
    number: int
    held: dict[int, _Held] = field(default_factory=dict)
    named: bool = False


class Trained:
    """Compares the parameters of the first optimizers with what they were, until they have moved.

    Weight decay alone trains nothing: a parameter counts as trained once it has other bits and has had a gradient that
    is not exactly 0.
    """

    def __init__(self) -> None:
        self._courses: Living[_Course] = Living()  # by the id of the groups
        self._all: list[_Course] = []
        with unnumbered():
            self._hooks = [
                register_optimizer_step_pre_hook(self._before),
                register_optimizer_step_post_hook(self._after),
            ]

    def stop(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()

    def told(self) -> list[tuple[int, int, bool, str]]:
        """Return, of each trainable parameter, the number of its optimizer, its own, whether it is trained; and its
        name, if it is not and that is known."""
        return [
            (course.number, k, each.moved, "" if each.moved else each.name)
            for course in self._all
            for k, each in course.held.items()
        ]

    def _before(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if is_captured():
            return
        key = id(groups(optimizer))
        course = self._courses.at(key)
        if course is None:
            if len(self._all) == _FOLLOWED:
                return
            course = _Course(len(self._all))
            self._all.append(course)
            self._courses.put(key, optimizer, course)
        with torch.no_grad(), no_torch_function(), no_torch_dispatch():
            for k, p in enumerate(parameters(optimizer)):
                if k not in course.held and p.requires_grad:
                    course.held[k] = _Held(_bits(p))

    def _after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        course = self._courses.at(id(groups(optimizer)))
        if course is None or is_captured():
            return
        still = [(p, each) for k, p in enumerate(parameters(optimizer)) if (each := course.held.get(k)) is not None]
        still = [(p, each) for p, each in still if not each.moved]
        with torch.no_grad(), no_torch_function(), no_torch_dispatch():
            for p, each in still:
                each.pulled = each.pulled or _pulls(p.grad)
                each.moved = each.pulled and (each.bits is None or each.bits != _bits(p))
        still = [(p, each) for p, each in still if not each.moved][:_NAMED]
        if still and not course.named:
            course.named = True
            names = search([p for p, _ in still]).names
            for each, found in zip([held for _, held in still], names, strict=True):
                each.name = next((name.path for name in found), "")


def _bits(tensor: torch.Tensor) -> bytes | None:
    """Return a fingerprint of the values; None where they cannot be read, which then counts as moved."""
    bits, plain = fingerprint(tensor)
    return bits if plain is not None else None


def _pulls(gradient: torch.Tensor | None) -> bool:
    """Whether a gradient is not exactly 0; one that cannot be read is taken for one."""
    if gradient is None:
        return False
    values: Any = gradient.coalesce().values() if gradient.layout == torch.sparse_coo else gradient
    try:
        return bool(values.ne(0).any())
    except RuntimeError:  # as of a layout without this operation
        return True
