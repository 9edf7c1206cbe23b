"""How a wrong second derivative is told: which Function, what it keeps, where, and what to keep instead."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from backsight.text import listed
from backsight.verification.custom import place_of
from backsight.verification.differences import SMALLEST_SIZE
from backsight.verification.directions import size_of
from backsight.verification.point import Point
from backsight.verification.report import WrongGradient
from backsight.verification.second_order.lost_links import Lost, lost_links
from backsight.verification.second_order.pullback import argument
from backsight.verification.trial import Wrong

SMALL = 1e-6
"""A second derivative is compared with what it is a derivative of, gradient over input, from this ratio on."""


def told(point: Point, wrongs: Sequence[Wrong], generator: torch.Generator) -> tuple[WrongGradient, ...]:
    """Return the finding about one operation, if something is wrong with it that matters."""
    wrongs = [wrong for wrong in wrongs if _matters(wrong)]
    if not wrongs:
        return ()
    lost = lost_links(point, generator)
    return (_lost(point, wrongs, lost) if lost else _unexplained(point, wrongs),)


def _matters(wrong: Wrong) -> bool:
    """Whether a mistake is larger than rounding in the gradient makes it: a second derivative may well be zero."""
    point = wrong.pull.point
    made = [each for each in point.outputs if each.numel()]
    gradient = sum(float(torch.linalg.vector_norm(each)) for each in made)
    moved = point.inputs[wrong.number]
    return abs(wrong.found - wrong.slope.value) > SMALL * max(gradient, SMALL) / max(size_of(moved), SMALLEST_SIZE)


def _lost(point: Point, wrongs: Sequence[Wrong], lost: Sequence[Lost]) -> WrongGradient:
    names = listed([*dict.fromkeys(each.name for each in lost)])
    title = f"The second derivative of {point.operation.name} is silently wrong: autograd cannot see through {names}."
    fix = (
        f"Save the inputs of forward (ctx.save_for_backward) and recompute {names} from them in backward. Or return "
        f"{'it' if len(lost) == 1 else 'them'} as {'one more output' if len(lost) == 1 else 'more outputs'} of "
        "forward and save that. If you need no second derivative, mark backward @once_differentiable: then it raises."
        if lost[0].kept
        else (
            "Remove it, so backward uses only differentiable operations. Or mark backward @once_differentiable: a "
            "second derivative then raises instead of being wrong."
        )
    )
    return _finding(point, wrongs, title, _why(lost), fix, lost)


def _why(lost: Sequence[Lost]) -> str:
    if not lost[0].kept:
        return " ".join(dict.fromkeys(each.why for each in lost))
    names, one = listed([*dict.fromkeys(each.name for each in lost)]), len(lost) == 1
    return (
        f"{names} {'is' if one else 'are'} computed in forward, which autograd does not record: when backward is "
        f"differentiated, {'it is a constant' if one else 'they are constants'}."
    )


def _unexplained(point: Point, wrongs: Sequence[Wrong]) -> WrongGradient:
    title = f"The second derivative of {point.operation.name} is silently wrong."
    why = "What its backward computes changes with the input differently than autograd says."
    fix = (
        "In backward, look for constants to autograd: values computed in forward and kept on ctx, .detach(), .data, "
        "NumPy. Or mark it @once_differentiable."
    )
    return _finding(point, wrongs, title, why, fix, ())


def _finding(
    point: Point, wrongs: Sequence[Wrong], title: str, why: str, fix: str, lost: Sequence[Lost]
) -> WrongGradient:
    operation = point.operation
    definition = operation.definition
    called = operation.place
    backward = place_of(definition.backward) if definition is not None else None
    places = list(dict.fromkeys(each.place for each in lost if each.place is not None))
    where = places[0] if places else backward or called
    kept = [f"{place}  {place.text}" for place in places]
    return WrongGradient(
        "BS420",
        "error",
        title,
        (*kept, why, _how_wrong(point, wrongs)),
        fix,
        None if where is None else str(where),
        operation=operation.name,
        input=argument(operation, wrongs[0].pull.point.wanted[wrongs[0].number]),
        calls=(called,) if called else (),
        forward=place_of(definition.forward) if definition is not None else None,
        backward=backward,
    )


def _how_wrong(point: Point, wrongs: Sequence[Wrong]) -> str:
    """Return `Along a random direction of x it is 1.2 by differences and 0 by autograd.`"""
    worst = wrongs[0]
    position = worst.pull.point.wanted[worst.number]
    right, found = worst.slope.value, worst.found
    return (
        f"With respect to {argument(point.operation, position)}, along a random direction, it is {right:.4g} by "
        f"differences of the gradient and {found:.4g} by double backward."
    )
