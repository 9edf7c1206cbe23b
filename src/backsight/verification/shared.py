"""`shared`: whether a backward computes with what another call of the same Function leaves behind.

A mask on the class is the mask of the last call: as long as backward follows forward at once, nothing shows.
"""

from __future__ import annotations

import torch

from backsight.verification.errors import OutOfTime, raised
from backsight.verification.hypotheses import Explanation
from backsight.verification.noted import gap
from backsight.verification.point import Point
from backsight.verification.trial import Pull
from backsight.verification.wording import listed, number


def shared(pull: Pull) -> Explanation | None:
    """Run two forwards, then their backwards, the last one first, and hold the first call against a call alone."""
    point = pull.point
    alone = _after(point, pull, None)
    if alone is None or isinstance(alone, Exception) or gap(pull.gradients, alone, point):
        return None  # its forward is another one at each call
    for other in _others(point):
        found = _after(point, pull, other)
        if isinstance(found, Exception):
            return _said(point, f"the first one raises {raised(found)}")
        if found is not None and (far := gap(alone, found, point)):
            pairs = zip(point.wanted, alone, found, strict=True)
            names = listed([point.operation.argument(k) for k, a, b in pairs if gap([a], [b], point)])
            return _said(point, f"the first one differs by up to {number(far)} in the gradient of {names}")
    return None


def _after(point: Point, pull: Pull, inputs: list[torch.Tensor] | None) -> list[torch.Tensor | None] | Exception | None:
    """Return the gradients of a call after which another one was made, if any; None where that cannot be."""
    try:
        mine = point.at(point.inputs)
        if inputs is not None:
            other = point.at(inputs)
            other.pulled([torch.ones_like(each) for each in other.outputs])
    except OutOfTime:
        raise
    except Exception:  # the function is not made for these values
        return None
    try:
        return mine.pulled(pull.us)
    except OutOfTime:
        raise
    except Exception as error:
        return error


def _others(point: Point) -> list[list[torch.Tensor]]:
    """The same numbers, in another order, twice as large, and with the other sign."""
    turned = [each.flip(tuple(range(each.dim()))) for each in point.inputs]
    return [point.inputs, turned, [2 * each for each in point.inputs], [-each for each in point.inputs]]


def _said(point: Point, seen: str) -> Explanation:
    operation = point.operation
    return Explanation(
        f"{operation.backward} depends on another call of {operation.name}.",
        (
            f"When two forwards run before their backwards, as when a program calls it twice, {seen}.",
            "It keeps its values where the next forward overwrites them (on the class, in a module or in a global), "
            "not on ctx.",
        ),
        "Keep it with ctx.save_for_backward, or as an attribute of ctx.",
    )
