"""BS404: the gradient is off by a constant factor."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from backsight.verification.case import Case
from backsight.verification.hypotheses.broadcast import copies
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.hypotheses.sizes import NO_SIZE, told, whole_factor
from backsight.verification.steps import numbers_in
from backsight.verification.wording import number, times


def constant_factor(case: Case) -> Explanation | None:
    """The gradient is the right one times a number, in every entry and for every grad_output."""
    factor = factor_of(case)
    if factor is None or abs(factor * copies(case) - 1) < 1e-4:  # a mean over copies is a missing sum
        return None
    if any(
        _is(factor, value, power) for _, value in _arguments(case) for power in (1, -1)
    ):  # named as a missing factor
        return None
    largest = case.draws[0].right.abs().argmax()
    got, right = case.at(case.draws[0].got)[largest], case.draws[0].right[largest]
    evidence = [
        f"Every entry that it returns for `{case.argument}` is {times(factor)} the right one; "
        f"the largest is {number(got)} and must be {number(right)}."
    ]
    evidence += _reasons(case, factor)
    fix = f"Multiply the gradient of `{case.argument}` by {times(1 / factor, words=False)}."
    return Explanation(
        f"{case.subject} returns {times(factor)} the right gradient for `{case.argument}`.", tuple(evidence), fix
    )


def factor_of(case: Case) -> float | None:
    """Return the number that the right gradient is multiplied by; None if there is no such."""
    draw = case.draws[0]
    largest = draw.right.abs().argmax()
    right, got = draw.right[largest], case.at(draw.got)[largest]
    if not abs(right.item()) or not abs(got.item()):
        return None
    ratio = (got / right).item()
    if isinstance(ratio, complex):
        if abs(ratio.imag) > 1e-6 * abs(ratio):
            return None
        ratio = ratio.real
    if abs(ratio - 1) < 1e-6 or not math.isfinite(ratio) or not case.fits(lambda each: each.got / ratio):
        return None
    return float(ratio)


def _reasons(case: Case, factor: float) -> list[str]:
    """Say what a factor is: a size, or a number of forward; nothing where it may be one or the other."""
    sizes, constant = told(case, factor, whole_factor(case))
    numbers = _of_forward(case, factor) if constant else ""
    return [*(each for each in sizes if each != NO_SIZE), numbers] if numbers else sizes


def _of_forward(case: Case, factor: float) -> str:
    """Say which numbers that forward computes with a factor is, or which argument of one entry."""
    try:
        known = [*_arguments(case), *numbers_in(case.run, case.input)]
    except Exception:  # the user's forward, outside of its Function
        return ""
    for powers in _POWERS:
        names = [
            (text.format(name), value)
            for power, text in powers.items()
            for name, value in dict.fromkeys(known)
            if _is(factor, value, power)
        ]
        if len(names) == 1 and names[0][0].startswith("one over the exponent") and names[0][1] == 2:
            return "Half is what remains when the 2 of d(x²)/dx = 2x is forgotten."
        if len(names) == 1:
            return f"That is {names[0][0]}, which is {number(names[0][1])}."
        if names:
            return f"{times(factor, words=False).removesuffix(' times')} is {', and '.join(name for name, _ in names)}."
    return ""


_POWERS = ({1: "{}", -1: "one over {}"}, {2: "the square of {}", -2: "one over the square of {}"})


def _arguments(case: Case) -> Iterator[tuple[str, float]]:
    """The arguments of one entry, but for values that much else may be."""
    for position, each in enumerate(case.point.values):
        single = isinstance(each, torch.Tensor) and each.numel() == 1 and each.is_floating_point()
        if single and abs(float(each)) not in (0.0, 0.5, 1.0, 2.0):
            yield f"`{case.operation.argument(position)}`", float(each)


def _is(factor: float, value: float, power: int) -> bool:
    return bool(value) and abs(value) != 1 and abs(factor / value**power - 1) < 1e-5
