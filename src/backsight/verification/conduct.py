"""How a backward behaves beside what it returns: what it changes, whether it says the same twice, what it raises.

`HABITS` are read off a `Conduct`, which `verify` and `verify_graph` note each in its own way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch

from backsight.tape.rows import dimensions, dtype_name
from backsight.verification.errors import raised
from backsight.verification.hypotheses import Explanation, Misshapen
from backsight.verification.operation import Operation
from backsight.verification.wording import ADDED_UP, listed, number


class Changed(NamedTuple):
    """A tensor of forward that the backward changes: what it is called, if that is known, and how it was seen."""

    name: str = ""
    seen: str = ""


class Coarse(NamedTuple):
    """A gradient that is computed in a coarser type than forward was, and how it was seen."""

    argument: str
    dtype: torch.dtype
    forward: torch.dtype
    seen: str


@dataclass(frozen=True)
class Conduct:
    """What a backward did beside returning gradients.

    `subject` is what it is called, `own` whether it is the program's own. `overwritten` is the grad_output that it
    changed in place; `dirty` are arguments that the forward changed without telling; `differs` says by how much two
    calls with the same differ; `refused` what the engine says to what it returned.
    """

    subject: str
    own: bool
    refused: str = ""
    overwritten: str = ""
    dirty: tuple[str, ...] = ()
    changed: tuple[Changed, ...] = ()
    differs: float = 0.0
    coarse: tuple[Coarse, ...] = ()


Habit: TypeAlias = Callable[[Conduct], Iterator[Explanation]]

HABITS: dict[str, Habit] = {}
"""Bad habits of a backward by code, each a function that says it."""


def habit(code: str) -> Callable[[Habit], Habit]:
    """Register a function that says a bad habit under its code."""

    def register(function: Habit) -> Habit:
        HABITS[code] = function
        return function

    return register


def told(conduct: Conduct) -> Iterator[tuple[str, Explanation]]:
    """Yield the code and the words of each bad habit."""
    for code, say in HABITS.items():
        for explanation in say(conduct):
            yield code, explanation


@habit("BS406")
def refused(conduct: Conduct) -> Iterator[Explanation]:
    """The engine would raise at what the backward returned."""
    if conduct.refused:
        yield Explanation(
            f"{conduct.subject} returns something that autograd refuses.",
            (f"{conduct.refused[:1].upper()}{conduct.refused[1:]}",),
            "Return one gradient for each argument of forward, in the shape of that argument: summed over the "
            "dimensions along which it was broadcast.",
        )


@habit("BS410")
def changes_grad_output(conduct: Conduct) -> Iterator[Explanation]:
    """grad_output is another after the call than before."""
    if name := conduct.overwritten:
        yield Explanation(
            f"{conduct.subject} modifies {name} in place.",
            (
                f"{name} has different values after the call. If the output is used twice, or a hook keeps it, "
                "another part of the graph gets the modified values.",
            ),
            f"Compute with new tensors: `{name} * x` instead of `{name}.mul_(x)`; clone it before assigning to a "
            "part of it.",
        )


@habit("BS412")
def changes_saved(conduct: Conduct) -> Iterator[Explanation]:
    """The forward or the backward changes a tensor that the backward computes with."""
    for name in conduct.dirty:
        yield Explanation(
            f"{conduct.subject.removesuffix('.backward')}.forward modifies its argument `{name}` in place without "
            "telling autograd.",
            (
                "Any operation that saved this tensor before, including this Function, uses the modified values in "
                "backward, so gradients are wrong.",
            ),
            f"Call ctx.mark_dirty({name}) and return it, or compute with a copy.",
        )
    if conduct.changed:
        names = listed([each.name for each in dict.fromkeys(conduct.changed) if each.name])
        yield Explanation(
            f"{conduct.subject} modifies a tensor that forward saved{f': {names}' if names else ''}.",
            (
                *(each.seen for each in conduct.changed if each.seen),
                "retain_graph=True, or a second loss over the same forward, would compute with the modified values.",
            ),
            "Compute with new tensors: no in-place operation on tensors from ctx.",
        )


@habit("BS411")
def not_deterministic(conduct: Conduct) -> Iterator[Explanation]:
    """The same grad_output gives other gradients."""
    if conduct.differs:
        yield Explanation(
            f"{conduct.subject} is not deterministic.",
            (
                f"With the same grad_output and the same saved tensors, two calls differ by up to "
                f"{number(conduct.differs)}.",
                "Random numbers that belong to the derivative must be drawn in forward and saved: drawing again in "
                "backward gives different ones.",
            ),
            "Draw them in forward and save them with ctx.save_for_backward.",
            severity="error" if conduct.own else "warning",
        )


@habit("BS413")
def loses_precision(conduct: Conduct) -> Iterator[Explanation]:
    """A gradient is computed in a coarser type."""
    for each in conduct.coarse:
        yield Explanation(
            f"{conduct.subject} computes the gradient of `{each.argument}` in {dtype_name(each.dtype)}, forward in "
            f"{dtype_name(each.forward)}.",
            (each.seen,),
            "Take dtypes from the tensors, as in torch.zeros_like(x) or .to(grad_output.dtype), instead of naming one.",
            severity="warning",
        )


def of_error(operation: Operation, error: Exception) -> tuple[str, Explanation]:
    """Explain what a backward raised."""
    text = str(error)
    invalid = re.search(r"at index (\d+) - got \[([\d, ]*)\] but expected shape compatible with \[([\d, ]*)\]", text)
    if invalid:
        return _wrong_shape(operation, int(invalid[1]), _sizes(invalid[2]), _sizes(invalid[3]))
    counted = re.search(r"returned an incorrect number of gradients \(expected (\d+), got (\d+)\)", text)
    title = f"{operation.backward} raises an error."
    fix = "Run backward with a random grad_output that has the shape of the output, and fix what it raises."
    evidence = (raised(error),)
    if counted:
        title = f"{operation.backward} returns {counted[2]} gradients for {counted[1]} arguments."
        fix = "Return one for each argument of forward; None for those that need no gradient."
    elif "modified by an inplace operation" in text:
        title = f"{operation.backward} needs a tensor that was modified in place after it was saved."
        fix = "Save a clone, or do not modify it in place."
        return "BS412", Explanation(title, evidence, fix)
    return "BS414", Explanation(title, evidence, fix)


def _wrong_shape(
    operation: Operation, argument: int, got: tuple[int, ...], expected: tuple[int, ...]
) -> tuple[str, Explanation]:
    paths = operation.paths()
    position = next((k for k, path in enumerate(paths) if path == (argument,)), None)
    name = operation.argument(position) if position is not None else f"argument {argument}"
    shapes = f"It has shape {dimensions(got)}, but `{name}` has shape {dimensions(expected)}."
    if math.prod(got) > math.prod(expected):
        return "BS406", Explanation(
            f"{operation.backward} lacks a sum in the gradient of `{name}`.",
            (shapes, ADDED_UP),
            f"Sum it over the dimensions along which `{name}` is repeated in forward.",
        )
    return "BS414", Explanation(
        f"{operation.backward} returns a gradient of the wrong shape for `{name}`.",
        (Misshapen(shapes, argument=name, shape=got),),
        f"Return a gradient with the shape of `{name}`.",
    )


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each.strip())
