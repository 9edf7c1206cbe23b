"""A step in full, as text: what came, what the node does, what left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from backsight.tape.cells import harmless
from backsight.tape.modules import module_of
from backsight.tape.rows import dimensions
from backsight.walkthrough.errors import WalkError
from backsight.walkthrough.gradient import Gradient, number, numbers

if TYPE_CHECKING:
    from backsight.walkthrough.step import Step


def card(step: Step) -> str:
    """Return a step in full.

    ```
    step 3 · MulBackward0 #2
      in        2×3  [0.5, 0.5, …]  norm 1.225
      meaning   Each factor gets g times the other factor.
      ...
    ```
    """
    module = module_of(step.node)
    inside = f" · {step.node.graph.called(module)}" if module else ""
    title = harmless(f"step {step.number} · {step.node}{inside}")
    return "\n".join([title, *(f"  {head:<9} {harmless(text)}" for head, text in _lines(step))])


def _lines(step: Step) -> Iterator[tuple[str, str]]:
    for gradient in step.grad_in:
        if gradient is not None:
            yield "in", said(gradient)
    if step.words:
        yield "meaning", step.words
    if step.formula is not None:
        for name, text in step.formula.of.items():
            yield "formula", f"{name}: {text}"
    for note in step.notes:
        yield "engine", note
    if step.node.leaf is None:
        yield from _jacobians(step)
    for name, gradient in zip(step.arguments, step.grad_out, strict=True):
        if gradient is not None:
            yield "out", f"{name}: {said(gradient)}"
    if step.node.leaf is None:
        yield "check", str(step.check)


def _jacobians(step: Step) -> Iterator[tuple[str, str]]:
    try:
        for jacobian in step.jacobian:
            yield "Jacobian", f"{jacobian.argument}: {jacobian}"
    except (WalkError, RuntimeError) as error:
        yield "Jacobian", str(error).strip().split("\n")[0]


def said(gradient: Gradient) -> str:
    """Return `2×3 [0.5, 0.5, …] norm 1.225`: shape, first values where they are kept, norm."""
    values = f"  {numbers(gradient.value)}" if gradient.value is not None else ""
    return f"{dimensions(gradient.shape)}{values}  norm {number(gradient.norm)}"
