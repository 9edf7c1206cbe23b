"""How a backward behaves beside what it returns: what it changes, whether it says the same twice, what it raises."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch

from backsight.tape.rows import dimensions, dtype_name
from backsight.verification.directions import equal, narrowest, size_of, wide
from backsight.verification.errors import CannotTest, raised
from backsight.verification.hypotheses import Explanation
from backsight.verification.operation import Operation
from backsight.verification.point import Point
from backsight.verification.trial import Pull, pulled
from backsight.verification.wording import ADDED_UP, number

Habit: TypeAlias = Callable[[Pull], Iterator[Explanation]]

HABITS: dict[str, Habit] = {}
"""Bad habits of a backward by code, each a function that looks for one."""


def habit(code: str) -> Callable[[Habit], Habit]:
    """Register a function that looks for a bad habit under its code."""

    def register(function: Habit) -> Habit:
        HABITS[code] = function
        return function

    return register


@habit("BS410")
def changes_grad_output(pull: Pull) -> Iterator[Explanation]:
    """grad_output is another after the call than before."""
    if pull.point.changed_grad_output:
        yield Explanation(
            f"{pull.point.operation.backward} changes grad_output in place.",
            (
                "grad_output holds other values after the call. Where the output is used twice, or a hook keeps it, "
                "another part of the graph gets the changed values.",
            ),
            "Compute with new tensors: `grad_output * x` instead of `grad_output.mul_(x)`; clone it first where it is "
            "indexed into.",
        )


@habit("BS412")
def changes_saved(pull: Pull) -> Iterator[Explanation]:
    """The forward or the backward changes a tensor that the backward computes with."""
    operation = pull.point.operation
    for position in pull.point.changed_inputs:
        name = operation.argument(position)
        yield Explanation(
            f"{operation.name}.forward changes its argument `{name}` in place and does not tell autograd.",
            (
                "Whoever saved the tensor before, this Function included, computes with the changed values in "
                "backward, and the gradient of what came before is wrong.",
            ),
            f"Call ctx.mark_dirty({name}) and return it, or compute with a copy.",
        )
    if pull.complaint is not None and "modified by an inplace operation" in str(pull.complaint):
        yield _changed(operation, "a second one through the same graph raises")
    elif (gap := difference(pull)) and _same_on_fresh_graph(pull):
        yield _changed(operation, f"a second one through the same graph differs from it by up to {number(gap)}")


@habit("BS411")
def not_deterministic(pull: Pull) -> Iterator[Explanation]:
    """The same grad_output gives other gradients."""
    gap = difference(pull)
    if not gap or _same_on_fresh_graph(pull):
        return
    yield Explanation(
        f"{pull.point.operation.backward} is not deterministic.",
        (
            f"With the same grad_output and the same saved tensors, two calls differ by up to {number(gap)}.",
            "Random numbers that belong to the derivative must be drawn in forward and saved: drawn anew in backward "
            "they are others.",
        ),
        "Draw them in forward and save them with ctx.save_for_backward.",
        severity="error" if pull.point.operation.definition else "warning",
    )


@habit("BS413")
def loses_precision(pull: Pull) -> Iterator[Explanation]:
    """Gradients in double precision whose every entry is a number of a narrower type."""
    point, operation = pull.point, pull.point.operation
    if point.eps > 1e-10 or any(narrowest(each) for each in point.outputs):
        return
    for k, gradient in enumerate(pull.gradients):
        narrow = None if gradient is None else narrowest(gradient)
        # Zeros and ones are exact in any type: look whether it depends on grad_output, and is more than rounding.
        if gradient is None or narrow is None or float(gradient.abs().max()) < _faint(pull, k):
            continue
        if torch.equal(gradient, _other(pull)[k]):
            continue
        name = operation.argument(point.wanted[k])
        yield Explanation(
            f"{operation.backward} computes the gradient of `{name}` in {dtype_name(narrow)}, forward in float64.",
            (f"Of a float64 grad_output it makes a gradient whose every entry is a {dtype_name(narrow)} number.",),
            "Take dtypes from the tensors, as in torch.zeros_like(x) or .to(grad_output.dtype), instead of naming one.",
            severity="warning",
        )


def difference(pull: Pull) -> float:
    """Return by how much two backwards through one graph differ; 0 where that is rounding."""
    return 0.0 if pull.repeated is None else _gap(pull.gradients, pull.repeated, pull.point)


def of_error(operation: Operation, error: Exception) -> tuple[str, Explanation]:
    """Explain what a backward raised."""
    text = str(error)
    invalid = re.search(r"at index (\d+) - got \[([\d, ]*)\] but expected shape compatible with \[([\d, ]*)\]", text)
    if invalid:
        return _wrong_shape(operation, int(invalid[1]), _sizes(invalid[2]), _sizes(invalid[3]))
    counted = re.search(r"returned an incorrect number of gradients \(expected (\d+), got (\d+)\)", text)
    title = f"{operation.backward} raises an error."
    fix = "Run backward with a grad_output of random numbers of the shape of the output, and mend what it raises."
    evidence = (raised(error),)
    if counted:
        title = f"{operation.backward} returns {counted[2]} gradients for {counted[1]} arguments."
        fix = "Return one for each argument of forward, None for those that need none."
    elif "modified by an inplace operation" in text:
        title = f"{operation.backward} needs a tensor that was changed in place after it was saved."
        fix = "Save a clone, or do not change it in place."
        return "BS412", Explanation(title, evidence, fix)
    return "BS414", Explanation(title, evidence, fix)


def _wrong_shape(
    operation: Operation, argument: int, got: tuple[int, ...], expected: tuple[int, ...]
) -> tuple[str, Explanation]:
    paths = operation.paths()
    position = next((k for k, path in enumerate(paths) if path == (argument,)), None)
    name = operation.argument(position) if position is not None else f"argument {argument}"
    shapes = f"It has the shape {dimensions(got)}, and `{name}` the shape {dimensions(expected)}."
    if math.prod(got) > math.prod(expected):
        return "BS406", Explanation(
            f"{operation.backward} lacks a sum in the gradient of `{name}`.",
            (shapes, ADDED_UP),
            f"Sum it over the dimensions along which `{name}` is repeated in forward.",
        )
    return "BS414", Explanation(
        f"{operation.backward} returns a gradient of the wrong shape for `{name}`.",
        (shapes,),
        f"Return a gradient of the shape of `{name}`.",
    )


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each.strip())


def _changed(operation: Operation, how: str) -> Explanation:
    return Explanation(
        f"{operation.backward} changes a tensor that forward saved.",
        (
            f"The first backward is repeatable on a new graph, but {how}.",
            "retain_graph=True, or a second loss over the same forward, would compute with the changed values.",
        ),
        "Compute with new tensors: no in-place operation on what comes out of ctx.",
    )


def _same_on_fresh_graph(pull: Pull) -> bool:
    """Whether a new forward with the same values has the same backward: then what was saved must have changed."""
    try:
        fresh = pull.point.at(pull.point.inputs)
        return not _gap(pull.gradients, fresh.pulled(pull.us), pull.point)
    except CannotTest:
        raise
    except Exception:  # it may raise at any call
        return False


def _gap(a: list[torch.Tensor | None], b: list[torch.Tensor | None], point: Point) -> float:
    widest = 0.0
    for x, y in zip(a, b, strict=False):
        if x is None or y is None or not x.numel() or equal(x, y):
            continue
        gap = torch.nan_to_num(wide(x - y).abs())
        scale = float(torch.nan_to_num(wide(x).abs(), posinf=0.0).max())
        if float(gap.max()) > 1e6 * point.eps * scale:  # sums of many terms may be taken in another order
            widest = max(widest, float(gap.max()))
    return widest


def _faint(pull: Pull, number: int) -> float:
    """What a gradient is that is zero but for rounding."""
    out = max(size_of(u) * size_of(y) for u, y in zip(pull.us, pull.point.outputs, strict=True))
    return 1e-10 * out / size_of(pull.point.inputs[number])


def _other(pull: Pull) -> list[torch.Tensor]:
    """The gradients for another grad_output."""
    us = [u * 0.7310585786300049 for u in pull.us]
    found = pulled(pull.point, us).gradients
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, pull.point.inputs, strict=True)]
