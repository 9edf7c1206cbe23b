"""BS404: the gradient is off by a constant factor."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from copy import copy
from typing import NamedTuple

import torch

from backsight.source.body import dotted, statements
from backsight.verification.case import Case, Known
from backsight.verification.custom import body_of
from backsight.verification.directions import drawn, size_of
from backsight.verification.hypotheses.broadcast import copies
from backsight.verification.hypotheses.completed import lightened
from backsight.verification.hypotheses.explanation import Explanation, of_every_entry
from backsight.verification.hypotheses.sizes import NO_SIZE, Factor, sizes_of, told, tried_at, whole_factor
from backsight.verification.steps import counts_in, numbers_in
from backsight.verification.wording import number, times

NEAR = 0.05
"""How far beside its values an input is moved, relative to their size."""


def constant_factor(case: Case) -> Explanation | None:
    """The gradient is the right one times a number, in every entry and for every grad_output."""
    factor = factor_of(case)
    if factor is None or abs(factor * copies(case) - 1) < 1e-4:  # a mean over copies is a missing sum
        return None
    if any(
        _is(factor, value, power) for _, value in _arguments(case) for power in (1, -1)
    ):  # named as a missing factor
        return None
    known = of_every_entry(case, f"Every entry that it returns for `{case.argument}` is {times(factor)} the right one")
    reasons, undone = _reasons(case, factor)
    by = times(1 / factor, words=False)
    fix = lightened(case) or undone or f"Multiply the gradient of `{case.argument}` by {by}"
    return Explanation(
        f"{case.subject} returns {times(factor)} the right gradient for `{case.argument}`.",
        (known, *reasons),
        f"{fix}.",
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


class Named(NamedTuple):
    """A number that a factor is: what is said of it, and how a gradient is mended."""

    told: str
    undone: str


def _reasons(case: Case, factor: float) -> tuple[list[str], str]:
    """Say what a factor is, and what undoes it: a size, or a number of forward; nothing where that may be either."""
    measured = whole_factor(case)
    sizes = told(case, factor, measured)
    number_ = of_forward(case, factor, measured) if sizes.constant else None
    if number_ is None and (counted := _of_counts(case, factor, measured)):
        return [counted.told], counted.undone
    if number_ is None:
        return sizes.lines, sizes.undone
    return [*(each for each in sizes.lines if each != NO_SIZE), number_.told], number_.undone


def of_forward(case: Case, factor: float, measured: Factor) -> Named | None:
    """Say which number of a forward a factor is: one that it multiplies with or computes, or an argument of one entry.

    It must be so at values beside these, too.
    """
    try:
        known = _numbers(case)
        beside = _beside(case, measured)
    except Exception:  # the user's forward, outside of its Function
        return None
    elsewhere, there = beside or ({}, factor)
    for powers in _POWERS:
        found = [
            (text, name, value, power)
            for power, text in powers.items()
            for name, value in dict.fromkeys(known)
            if _is(factor, value, power) and _is(there, elsewhere.get(name, value), power)
        ]
        names = [text.format(name) for text, name, _, _ in found]
        if len(names) == 1:
            _, name, value, power = found[0]
            by = _called(case, value) if elsewhere.get(name, value) == value else name
            return Named(f"That is {names[0]}, which is {number(value)}.", _undone(case, by, power))
        if names:
            which = times(factor, words=False).removesuffix(" times")
            changing = [(name, power) for _, name, value, power in found if elsewhere.get(name, value) != value]
            return Named(f"{which} is {', and '.join(names)}.", _undone(case, *(changing or [(which, 1)])[0]))
    return None


def _of_counts(case: Case, factor: float, measured: Factor) -> Named | None:
    """Say that a factor is something that forward counts over something else, or over a size; at other sizes, too."""
    try:
        known = _ratios(case, factor)
        fitting = {names: pair for names, pair in known.items() if all(n > 1 and n == round(n) for n in pair)}
        if fitting and Known.BACKWARD in case.known:
            for point, there in tried_at(case, measured):
                other = copy(case)
                other.point = point
                beside = _ratios(other, there)
                fitting = {names: pair for names, pair in fitting.items() if names in beside}
    except Exception:  # the user's forward, outside of its Function
        return None
    if not fitting:
        return None
    (over, under), (a, b) = next(iter(fitting.items()))
    first, second = number(a), number(b)
    return Named(
        f"It is {first} over {second}: {first} is {over}, and {second} is {under}.",
        f"Multiply the gradient of `{case.argument}` by {under}, and divide it by {over}",
    )


def _ratios(case: Case, factor: float) -> dict[tuple[str, str], tuple[float, float]]:
    """Two numbers whose quotient is the factor, of which forward counts one; no size alone is one."""
    counts = counts_in(case.run, case.input)
    known = {**counts, **(sizes_of(case) if counts else {})}
    return {
        (over, under): (a, b)
        for over, a in known.items()
        for under, b in known.items()
        if (over in counts or under in counts) and a and b and a != b and _is(factor, a / b, 1)
    }


def _called(case: Case, value: float) -> str:
    """Return the argument that is a number, as backward has it: `ctx.tau`. The number where none or several are it."""
    given = [k for k, each in enumerate(case.point.values) if isinstance(each, float) and each == value]
    common = abs(value) in _COMMON or len(given) != 1
    return number(value) if common else f"`{_kept(case, case.operation.argument(given[0]))}`"


def _kept(case: Case, argument: str) -> str:
    """Return `ctx.tau` where forward keeps an argument so, and else the argument."""
    body = body_of(case.definition.forward) if case.definition else None
    for statement in statements(body.node) if body is not None else ():
        match statement:
            case ast.Assign(targets=[ast.Attribute() as target], value=ast.Name(id=name)) if name == argument:
                return dotted(target) or argument
    return argument


def _undone(case: Case, name: str, power: int) -> str:
    how = "Multiply" if power < 0 else "Divide"
    square = "the square of " * (abs(power) == 2)
    return f"{how} the gradient of `{case.argument}` by {square}{name}"


def _beside(case: Case, measured: Factor) -> tuple[dict[str, float], float] | None:
    """The numbers of forward at values beside these, and the factor there; None where it is not the same everywhere."""
    if Known.BACKWARD not in case.known:
        return None
    generator, there = torch.Generator().manual_seed(0), copy(case)
    there.point = case.point.at([each + NEAR * size_of(each) * drawn(each, generator) for each in case.point.inputs])
    factor = measured(there.point)
    return None if factor is None else (dict(_numbers(there)), factor)


def _numbers(case: Case) -> list[tuple[str, float]]:
    return [*_arguments(case), *_functions(case), *numbers_in(case.run, case.input)]


_COMMON = (0.0, 0.5, 1.0, 2.0)
"""Values that much else may be."""

_POWERS = ({1: "{}", -1: "one over {}"}, {2: "the square of {}", -2: "one over the square of {}"})

_FUNCTIONS = (torch.exp, torch.log, torch.sqrt, torch.sigmoid, torch.tanh, torch.cos, torch.sin)


def _arguments(case: Case) -> Iterator[tuple[str, float]]:
    """The arguments of one entry, but for values that much else may be."""
    for position, each in enumerate(case.point.values):
        single = isinstance(each, torch.Tensor) and each.numel() == 1 and each.is_floating_point()
        if single and abs(float(each)) not in _COMMON:
            name = case.operation.argument(position)
            yield f"`{name}`", float(each)


def _functions(case: Case) -> Iterator[tuple[str, float]]:
    """The values of common functions of the arguments of one entry."""
    for name, value in _arguments(case):
        for function in _FUNCTIONS:
            yield f"{function.__name__}({name})", float(function(torch.tensor(value, dtype=torch.float64)))


def _is(factor: float, value: float, power: int) -> bool:
    return bool(value) and math.isfinite(value) and abs(value) != 1 and abs(factor / value**power - 1) < 1e-5
