"""`Case`: one wrong gradient, with what is needed to find out how it is wrong.

Every hypothesis proposes what the gradient would have to be if it were true, and the case says whether that fits what
is known of it. Three sources make cases: `verify` knows the forward and can call the backward, `verify_graph` can call
the backward alone, and `assert_manual_backward` knows the forward and one gradient that somebody derived.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from functools import cached_property
from typing import Any

import torch

from backsight.source import Place
from backsight.verification.definition import Definition
from backsight.verification.operation import Operation
from backsight.verification.point import Point
from backsight.verification.written import Written, written


class Known(Flag):
    """What can be asked of a case: what its forward does, and what its backward makes of another grad_output."""

    FORWARD = auto()
    BACKWARD = auto()


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw of grad_output, the gradient that backward returned, and the right one at the positions looked at.

    Where the forward is not known, `right` is what a backward that is linear in grad_output would return, as far as
    the other draws tell.
    """

    us: list[torch.Tensor]
    got: torch.Tensor
    right: torch.Tensor

    @property
    def u(self) -> torch.Tensor:
        """grad_output, where there is one output."""
        return self.us[0]


Candidate = Callable[[Draw], torch.Tensor | None]


class Case:
    """A wrong gradient: `number` is the number of the input among those that a gradient is wanted for.

    ```python
    case.fits(lambda draw: -draw.got)       # would the gradient be right with the other sign?
    ```

    `subject` is what the backward is called, as the first words of a finding, and `argument` the input whose gradient
    it is; `grad_output` what the author calls the gradient that comes in. `outputs` are the numbers of the outputs that
    are looked at.
    """

    known: Known
    subject: str
    argument: str
    grad_output: str = "grad_output"
    definition: Definition | None = None
    number: int
    outputs: tuple[int, ...]
    positions: torch.Tensor
    draws: list[Draw]
    returned_none = False
    through = ""
    """` through output 1` where an operation has several outputs and one part of the gradient is wrong."""

    point: Point
    """The operation at the values it was tested at, where the forward is known."""

    # ---- what a source says

    def equal(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Which entries are equal, as closely as can be told."""
        raise NotImplementedError

    def rights_of(self, number: int) -> list[torch.Tensor]:
        """The right gradients of wanted input `number`, one for each draw, at the positions looked at.

        The input must have the shape of this one.
        """
        raise NotImplementedError

    def right_for(self, us: Sequence[torch.Tensor]) -> torch.Tensor:
        """The right gradient of this input for another grad_output."""
        raise NotImplementedError

    def diagonal(self) -> torch.Tensor:
        """d output / d input at the same place; the one output must have the shape of this input."""
        raise NotImplementedError

    def returned_for(self, number: int) -> list[torch.Tensor | None]:
        """What was returned for another input, one for each draw."""
        raise NotImplementedError

    def backward(self, us: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """Return the gradient that backward returns for these, one for each output that is looked at.

        None where it raises, or cannot be called.
        """
        raise NotImplementedError

    def run(self, x: torch.Tensor) -> Sequence[torch.Tensor] | None:
        """Run the forward as autograd would see it, with `x` for the input; None where it cannot be."""
        raise NotImplementedError

    def unfitting(self) -> str:
        """Say how the gradient is seen to be wrong where the entries checked are right."""
        raise NotImplementedError

    @property
    def symmetric(self) -> bool:
        """Whether only the symmetric parts of gradients are compared."""
        return False

    @property
    def place(self) -> tuple[int, int] | None:
        """Which of the arguments of a custom forward this input is, and how many there are."""
        return None

    # ---- what hypotheses ask

    @property
    def operation(self) -> Operation:
        """The operation whose gradient is wrong, where the forward is known."""
        return self.point.operation

    @property
    def input(self) -> torch.Tensor:
        """The input, at the values it was tested at."""
        found: torch.Tensor = self.point.inputs[self.number]
        return found

    @property
    def output(self) -> torch.Tensor:
        """The values of the one output."""
        return self.point.outputs[self.outputs[0]]

    def argument_of(self, number: int) -> str:
        """What wanted input `number` is called."""
        return self.operation.argument(self.point.wanted[number])

    @property
    def shape(self) -> torch.Size:
        """The shape of the input."""
        return self.input.shape

    @property
    def single(self) -> bool:
        """Whether there is one output, so that `grad_output` is one tensor."""
        return len(self.outputs) == 1

    @property
    def elementwise(self) -> bool:
        """Whether the one output has the shape of this input."""
        return self.single and self.draws[0].u.shape == self.shape

    @property
    def misshapen(self) -> bool:
        """Whether the gradient has not the shape of its input. The engine refuses such a one."""
        return self.draws[0].got.shape != self.shape

    @cached_property
    def at_zero(self) -> torch.Tensor | None:
        """The gradient that backward returns for a grad_output of zeros. The right one is zero."""
        return self.backward([torch.zeros_like(u) for u in self.draws[0].us])

    @cached_property
    def together(self) -> torch.Tensor | None:
        """The gradient that backward returns for the sum of the two grad_outputs."""
        return self.backward([a + b for a, b in zip(self.draws[0].us, self.draws[1].us, strict=True)])

    def at(self, tensor: torch.Tensor) -> torch.Tensor:
        """The values of a tensor of the input's shape at the positions looked at."""
        return tensor.expand(self.shape).reshape(-1)[self.positions]

    def fits(self, candidate: Candidate, number: int | None = None) -> bool:
        """Whether a candidate is the right gradient in every draw: of this input, or of wanted input `number`."""
        rights = [draw.right for draw in self.draws] if number is None else self.rights_of(number)
        for draw, right in zip(self.draws, rights, strict=True):
            proposed = candidate(draw)
            if proposed is None or proposed.numel() != self.shape.numel():
                return False
            if not bool(self.equal(proposed.reshape(-1)[self.positions], right).all()):
                return False
        return True

    @property
    def is_wrong(self) -> torch.Tensor:
        """Which of the entries looked at are wrong in the first draw."""
        return ~self.equal(self.at(self.draws[0].got), self.draws[0].right)

    def counted(self, entries: torch.Tensor) -> str:
        """`19 of 36 entries`, of those looked at."""
        looked = "" if self.positions.numel() == self.shape.numel() else " checked"
        every = entries.numel()
        return (
            f"all {every} entries{looked}"
            if bool(entries.all())
            else f"{int(entries.sum())} of {every} entries{looked}"
        )

    # ---- where it is written

    @cached_property
    def written(self) -> Written | None:
        """The source of the backward, if it is at hand."""
        return written(self.definition)

    @property
    def returned(self) -> ast.expr | None:
        """The expression that backward returns for this input, where the source is plain."""
        found = self.written.returned(*self.place) if self.written and self.place else None
        return found[1] if found else None

    @property
    def line(self) -> Place | None:
        """Where backward makes the gradient of this input."""
        if self.written is None:
            return None
        return self.written.line_of(*self.place) if self.place else self.written.backward


def own_forward(point: Point, number: int, x: torch.Tensor, call: Callable[[list[Any]], Any]) -> Any:
    """Call a forward at a point with `x` for wanted input `number`, and the others such that autograd records them."""
    values = [each.clone() if isinstance(each, torch.Tensor) else each for each in point.values]
    for k in point.wanted:  # a step of another input may be the one that is left out
        values[k] = values[k].requires_grad_().clone()
    values[point.wanted[number]] = x
    return call(values)
