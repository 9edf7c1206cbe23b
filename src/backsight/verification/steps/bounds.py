"""Numbers in a forward that are somewhere else in its backward: an eps inside of a root, a bound of a clamp."""

from __future__ import annotations

from collections.abc import Callable

import torch

from backsight.verification.steps.alterations import with_output
from backsight.verification.steps.pull import pulled
from backsight.verification.steps.step import Step

Other = Callable[[Step], torch.Tensor | None]
"""Makes what a step would return with its number elsewhere; None where it has none, or where that is no other place."""


def added_before(step: Step) -> torch.Tensor | None:
    """f(z + c) for f(z) + c."""
    number, before = added(step), _added_to(step)
    inner = None if before is None else before.operand(0)
    if number is None or before is None or inner is None or before.name not in _FUNCTIONS or len(before.args) > 2:
        return None
    return before.with_operand(0, inner + number)


def added_after(step: Step) -> torch.Tensor | None:
    """f(z) + c for f(z + c); of a root in a divisor that is c + √z there."""
    before = step.origin(0)
    number = None if before is None else added(before)
    if before is None or number is None or step.name not in _FUNCTIONS:
        return None
    inner = before.args[_place_of_sum(before)]
    if step.name == "rsqrt" or (step.name == "pow" and step.args[1] == -0.5):
        made: torch.Tensor = 1 / (inner.sqrt() + number)
        return made
    return step.with_operand(0, inner) + number


def not_added(step: Step) -> torch.Tensor | None:
    """z for z + c."""
    found: torch.Tensor | None = None if added(step) is None else step.args[_place_of_sum(step)]
    return found


def clamped(step: Step) -> torch.Tensor | None:
    """max(z, c) for z + c."""
    number = added(step)
    return None if number is None else step.args[_place_of_sum(step)].clamp_min(number)


def added_instead(step: Step) -> torch.Tensor | None:
    """z + c for max(z, c)."""
    x, low, high = step.operand(0), *bounds(step)
    return None if x is None or low is None or high is not None or not low > 0 else x + low


def whole(other: Other) -> Callable[[Step, int], torch.Tensor | None]:
    """The value and the derivative of the other."""
    return lambda step, number: None if number else other(step)


def its_slope(other: Other) -> Callable[[Step, int], torch.Tensor | None]:
    """The derivative of the other, and the value of the step."""
    return lambda step, number: None if number or (made := other(step)) is None else step.with_derivative_of(made)


def its_value(other: Other) -> Callable[[Step, int], torch.Tensor | None]:
    """The value of the other, and the derivative of the step."""

    def alter(step: Step, number: int) -> torch.Tensor | None:
        made = None if number else other(step)
        return None if made is None else made.detach() + (step.result - step.result.detach())

    return alter


def in_divisor(other: Other) -> Callable[[Step, int], torch.Tensor | None]:
    """A quotient as it is, whose derivative divides by the other: (da - y db) / b."""

    def alter(step: Step, number: int) -> torch.Tensor | None:
        before = step.origin(1)
        made = None if number or before is None or step.name not in DIVISIONS else other(before)
        if made is None:
            return None
        over, by, y = step.args[0], made.detach(), step.result.detach()
        top = over - over.detach() if isinstance(over, torch.Tensor) else 0
        return y + (top - y * (made - by)) / by

    return alter


def by_quotient(other: Other) -> Callable[[Step, int], torch.Tensor | None]:
    """A quotient that divides by the other, and takes the derivative of the root in its divisor from itself.

    Normalizations are derived so: (g - mean(g) - y mean(g y)) / s, where y is saved and s is computed anew.
    """

    def alter(step: Step, number: int) -> torch.Tensor | None:
        before = step.origin(1)
        made = None if number or before is None or step.name not in DIVISIONS else other(before)
        if made is None or before is None:
            return None
        root = before if before.name in _ROOTS else _added_to(before)
        inner = root.operand(0) if root is not None and root.name in _ROOTS else None
        if inner is None:
            return None
        over, by, y = step.args[0], made.detach(), step.result.detach()
        top = over - over.detach() if isinstance(over, torch.Tensor) else 0
        return y + (top - y * (0.5 / before.result.detach()) * (inner - inner.detach())) / by

    return alter


def at_output(other: Other) -> Callable[[Step, int], torch.Tensor | None]:
    """The derivative in terms of the output, computed with the output of the other."""

    def alter(step: Step, number: int) -> torch.Tensor | None:
        made = None if number else other(step)
        return None if made is None else with_output(step, 0, made)

    return alter


def as_output(other: Other) -> Callable[[Step, int], torch.Tensor | None]:
    """The value of the other, and the derivative in terms of that."""

    def alter(step: Step, number: int) -> torch.Tensor | None:
        made = None if number else other(step)
        sloped = None if made is None else with_output(step, 0, made)
        return None if made is None or sloped is None else made.detach() + (sloped - sloped.detach())

    return alter


DIVISIONS = ("div", "truediv", "true_divide")


def added(step: Step) -> float | None:
    """Return the number that a step adds, if that is all it does."""
    if step.name not in ("add", "radd") or len(step.args) != 2 or step.kwargs:
        return None
    number = step.args[1 - _place_of_sum(step)]
    single = isinstance(number, torch.Tensor) and number.numel() == 1 and not number.requires_grad
    if isinstance(number, bool) or not (single or isinstance(number, int | float)):
        return None
    return float(number)


def _place_of_sum(step: Step) -> int:
    return 0 if step.operand(0) is not None else 1


def _added_to(step: Step) -> Step | None:
    return step.origin(_place_of_sum(step))


def bounds(step: Step) -> tuple[float | None, float | None]:
    """Return the lower and the upper bound of a step that has such."""
    given = dict(zip(_BOUNDS.get(step.name, ()), step.args[1:], strict=False)) | step.kwargs
    if step.name == "relu":
        return 0.0, None
    low, high = given.get("min"), given.get("max")
    plain = all(each is None or isinstance(each, int | float) for each in (low, high))
    return (low, high) if plain and step.name in _BOUNDS else (None, None)


def without_bound(step: Step, number: int) -> torch.Tensor | None:
    """One bound of two is not there: the upper one, then the lower one."""
    x, (low, high) = step.operand(0), bounds(step)
    if x is None or low is None or high is None or number > 1:
        return None
    if not bool((x < low).any() and (x > high).any()):  # nothing tells one bound from both
        return None
    return x.clamp(min=low) if number == 0 else x.clamp(max=high)


def bound_not_masked(step: Step, number: int) -> torch.Tensor | None:
    """The values have both bounds, and the derivative has one of them."""
    made = without_bound(step, number)
    return None if made is None else step.with_derivative_of(made)


def masked(step: Step, mask: torch.Tensor) -> torch.Tensor | None:
    """The derivative of a step that chooses: with another mask."""
    if step.name == "where":
        first, second = step.args[1:]
        made: torch.Tensor = torch.where(mask, first, second)
        return step.with_derivative_of(made)
    x = step.operand(0)
    if x is None or bounds(step) == (None, None) or x.shape != mask.shape:
        return None
    return pulled(step.result.detach(), x, lambda u: torch.where(mask, u, 0.0))


_ROOTS = ("sqrt", "std", "norm", "linalg_vector_norm")
_FUNCTIONS = frozenset({"sqrt", "rsqrt", "log", "log2", "exp", "reciprocal", "abs", "square", "pow", "norm"})
_BOUNDS = {
    "clamp": ("min", "max"),
    "clip": ("min", "max"),
    "clamp_min": ("min",),
    "clamp_max": ("max",),
    "relu": (),
}
