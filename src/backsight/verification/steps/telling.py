"""`Found`: a mistake in a step, and its words."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from backsight.verification.steps.alteration import Alteration
from backsight.verification.steps.step import Step

LONGEST = 80
"""A longer line is not quoted."""


@dataclass(frozen=True)
class Found:
    """A mistake, the step that it was made in, and the number of the operand; `steps` are all of forward, in order."""

    alteration: Alteration
    step: Step
    operand: int
    steps: tuple[Step, ...]
    beside: Step | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    factor: float | None = None
    again: Callable[[Any], Found | None] | None = None
    """Searches for the same mistake elsewhere; None of those in the table."""

    def told(self, argument: str) -> tuple[str, str, str]:
        """Return title, evidence and fix."""
        step = named(self.step, self.steps) + (f" and {named(self.beside, self.steps)}" if self.beside else "")
        short = shortly(self.step, self.steps) + (f" and {shortly(self.beside, self.steps)}" if self.beside else "")
        given = {"step": step, "short": short, "operand": operand(self.step, self.operand), "argument": argument}
        plural = {"constant": "constants", "changes": "change", "it": "them"}
        given |= plural if self.beside else {"constant": "a constant", "changes": "changes", "it": "it"}
        alteration = self.alteration
        words = alteration.words(self.step, self.operand) | dict(self.words)
        given |= {name: text.replace("{argument}", argument) for name, text in words.items()}
        title, evidence, fix = (
            text.format(**given) for text in (alteration.title, alteration.evidence, alteration.fix)
        )
        return title, evidence, fix


def named(step: Step, steps: Iterable[Step] = ()) -> str:
    """Return `the second product in y = a * b * c`: which one, where there are several of a name in a line."""
    text = _line(step)
    same = [each for each in steps if each.name == step.name and each.within == step.within and _line(each) == text]
    alike = list(dict.fromkeys(each.key for each in same))
    name = _NAMES.get(step.name, step.name)
    if len(alike) > 1 and step.key in alike:
        number = alike.index(step.key)
        which = _ORDINALS[number] if number < len(_ORDINALS) else f"{number + 1}th"
        name = f"the {which} {name.removeprefix('the ')}"
    if step.within:
        name = f"the {name.removeprefix('the ')} inside {step.within}"
    line = f" on line {step.place[1]}" if step.place else ""
    return f"{name} in `{text}`" if text else name + line


def shortly(step: Step, steps: Iterable[Step] = ()) -> str:
    """Return what a step is called once its line was quoted: `n` of `n = x.norm(dim=1)`, else `norm`."""
    text, name = _line(step), named(step, steps)
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):  # several lines, or none
        return name.removesuffix(f" in `{text}`")
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=target)], value=ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called))
        ) if called == step.name and not step.within:
            return f"`{target}`"
    return name.removesuffix(f" in `{text}`")


def operand(step: Step, number: int) -> str:
    """Return what an operand of a step is called."""
    if sum(isinstance(each, torch.Tensor) for each in step.args) == 1:
        return "the input"
    return ("the first operand", "the second operand", "the third operand")[number]


def _line(step: Step) -> str:
    from backsight.verification.operation import called_at

    text = called_at(*step.place).text if step.place else ""
    return text if len(text) <= LONGEST else ""


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")

_NAMES = {
    "getitem": "the indexing",
    "mul": "the product",
    "rmul": "the product",
    "matmul": "the matrix product",
    "mm": "the matrix product",
    "bmm": "the matrix product",
    "add": "the sum",
    "radd": "the sum",
    "sub": "the difference",
    "rsub": "the difference",
    "truediv": "the quotient",
    "rtruediv": "the quotient",
    "div": "the quotient",
    "pow": "the power",
    "mT": "the transpose",
    "T": "the transpose",
    "transpose": "the transpose",
}
