"""`noted`: how the backward of an operation behaved in the test of `verify`."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backsight.tape.rows import dtype_name
from backsight.verification.conduct import Changed, Coarse, Conduct
from backsight.verification.directions import equal, narrowest, size_of, wide
from backsight.verification.errors import CannotTest
from backsight.verification.point import Point
from backsight.verification.trial import Pull, pulled
from backsight.verification.wording import number


def noted(pull: Pull) -> Conduct:
    """Return what the backward did beside returning gradients."""
    point, operation = pull.point, pull.point.operation
    changed = tuple(_changed(pull))
    return Conduct(
        operation.backward,
        operation.definition is not None,
        overwritten="grad_output" if point.changed_grad_output else "",
        dirty=tuple(operation.argument(position) for position in point.changed_inputs),
        changed=changed,
        differs=0.0 if changed else difference(pull),
        coarse=tuple(_coarse(pull)),
    )


def difference(pull: Pull) -> float:
    """Return by how much two backwards through one graph differ; 0 where that is rounding."""
    return 0.0 if pull.repeated is None else gap(pull.gradients, pull.repeated, pull.point)


def _changed(pull: Pull) -> Iterator[Changed]:
    """Say how a second backward through the same graph shows that what was saved is changed."""
    how = ""
    if pull.complaint is not None and "modified by an inplace operation" in str(pull.complaint):
        how = "a second one through the same graph raises"
    elif (gap := difference(pull)) and _same_on_fresh_graph(pull):
        how = f"a second one through the same graph differs from it by up to {number(gap)}"
    if how:
        yield Changed(seen=f"The first backward is repeatable on a new graph, but {how}.")


def _coarse(pull: Pull) -> Iterator[Coarse]:
    """Gradients in double precision whose every entry is a number of a narrower type."""
    point = pull.point
    if point.eps > 1e-10 or any(narrowest(each) for each in point.outputs):
        return
    for k, gradient in enumerate(pull.gradients):
        narrow = None if gradient is None else narrowest(gradient)
        # Zeros and ones are exact in any type: look whether it depends on grad_output, and is more than rounding.
        if gradient is None or narrow is None or float(gradient.abs().max()) < _faint(pull, k):
            continue
        if not torch.equal(gradient, _other(pull)[k]):
            name = point.operation.argument(point.wanted[k])
            seen = f"For a float64 grad_output, every entry of the gradient is a {dtype_name(narrow)} number."
            yield Coarse(name, narrow, torch.float64, seen)


def _same_on_fresh_graph(pull: Pull) -> bool:
    """Whether a new forward with the same values has the same backward: then what was saved must have changed."""
    try:
        fresh = pull.point.at(pull.point.inputs)
        return not gap(pull.gradients, fresh.pulled(pull.us), pull.point)
    except CannotTest:
        raise
    except Exception:  # it may raise at any call
        return False


def gap(a: list[torch.Tensor | None], b: list[torch.Tensor | None], point: Point) -> float:
    """Return by how much gradients differ; 0 where that is rounding."""
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
