"""`Case`: one wrong gradient, with what is needed to find out how it is wrong.

Every hypothesis proposes what the gradient would have to be if it were true, and the case says whether that fits what
the forward says, for two independent draws of grad_output: with one draw, a gradient of a single entry would be a
constant factor of anything.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from backsight.source import Place
from backsight.verification.directions import asked, drawn, inner
from backsight.verification.operation import Operation
from backsight.verification.point import Point
from backsight.verification.trial import Pull, Wrong, pulled
from backsight.verification.written import Written, argument_number, written

ENTRIES = 256
"""So many entries of a gradient are compared with the right ones, each of which costs two calls of the forward."""

SECONDS, FEWEST = 1.0, 4
"""And no more of them than fit into this time, but a few in any case."""

CLOSE = 1e-4
"""Entries this close, relative to the largest, are equal."""


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw of grad_output, the gradient that backward returned, and the right one at the positions looked at."""

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
    """

    def __init__(self, wrong: Wrong, generator: torch.Generator):
        self.wrong = wrong
        self.number = wrong.number
        self.point: Point = wrong.pull.point
        self.operation: Operation = self.point.operation
        self.returned_none = wrong.pull.gradients[self.number] is None
        self.positions = self._positions(generator)
        self.outputs = tuple(range(len(wrong.pull.us)))
        other = pulled(self.point, [drawn(u, generator).where(u != 0, 0.0) for u in wrong.pull.us])
        self._draw(wrong.pull, other)
        if len(self.outputs) > 1:
            self._narrow()

    def _draw(self, *pulls: Pull) -> None:
        self.pulls = pulls
        self._rights: dict[int, list[torch.Tensor]] = {}
        rights = self.rights_of(self.number)
        self.draws = [Draw(self._seen(p.us), self._gradient(p), right) for p, right in zip(pulls, rights, strict=True)]

    def _narrow(self) -> None:
        """Of several outputs look at the first one whose part of the gradient is wrong, with no gradient to others."""
        everything = self.pulls
        for only in range(len(everything[0].us)):
            us = [[u if k == only else torch.zeros_like(u) for k, u in enumerate(pull.us)] for pull in everything]
            self.outputs = (only,)
            self._draw(*[pulled(self.point, each) for each in us])
            if bool(self.is_wrong.any()):
                return
        self.outputs = tuple(range(len(everything[0].us)))
        self._draw(*everything)

    def _seen(self, us: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [us[k] for k in self.outputs]

    def whole(self, us: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return a grad_output for every output, zeros for those that are not looked at."""
        full = [torch.zeros_like(u) for u in self.wrong.pull.us]
        for k, u in zip(self.outputs, us, strict=True):
            full[k] = u
        return full

    @property
    def input(self) -> torch.Tensor:
        """The input, at the values it was tested at."""
        found: torch.Tensor = self.point.inputs[self.number]
        return found

    @property
    def argument(self) -> str:
        """What the input is called in the signature of the operation."""
        return self.argument_of(self.number)

    def argument_of(self, number: int) -> str:
        """What wanted input `number` is called."""
        return self.operation.argument(self.point.wanted[number])

    @property
    def through(self) -> str:
        """` through output 1` where an operation has several outputs and one part of the gradient is wrong."""
        several = len(self.wrong.pull.us) > 1 and self.single
        return f" through output {self.outputs[0]}" if several else ""

    @property
    def output(self) -> torch.Tensor:
        """The values of the one output."""
        return self.point.outputs[self.outputs[0]]

    @property
    def subject(self) -> str:
        """What the backward is called, as the first words of a finding."""
        return self.operation.backward

    @cached_property
    def written(self) -> Written | None:
        """The source of the backward, if it is at hand."""
        return written(self.operation)

    @property
    def single(self) -> bool:
        """Whether there is one output, so that `grad_output` is one tensor."""
        return len(self.outputs) == 1

    @property
    def elementwise(self) -> bool:
        """Whether the one output has the shape of this input."""
        return self.single and self.draws[0].u.shape == self.input.shape

    @cached_property
    def at_zero(self) -> torch.Tensor:
        """The gradient that backward returns for a grad_output of zeros. The right one is zero."""
        us = [torch.zeros_like(u) for u in self.wrong.pull.us]
        gradient = self.point.pulled(us)[self.number]
        return torch.zeros_like(self.input) if gradient is None else gradient

    def backward(self, us: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the gradient that backward returns for these, one for each output that is looked at."""
        gradient = self.point.pulled(self.whole(us))[self.number]
        return torch.zeros_like(self.input) if gradient is None else gradient

    def returned(self) -> ast.expr | None:
        """The expression that backward returns for this input, where the source is plain."""
        place = self._in_source()
        return place[1] if place else None

    def source_of_gradient(self) -> str:
        """That expression as text, if it is short; "" where it is not known."""
        expression = self.returned()
        text = ast.unparse(expression) if expression is not None else ""
        return text if len(text) <= 60 else ""

    def place_of(self, statement: ast.stmt | None) -> Place | None:
        """Where a statement of backward stands."""
        return self.written.body.place(statement) if self.written and statement is not None else None

    @property
    def line(self) -> Place | None:
        """Where backward makes the gradient of this input."""
        if self.written is None:
            return None
        which = argument_number(self.operation, self.point.wanted[self.number])
        return self.written.line_of(*which) if which else self.written.backward

    def _in_source(self) -> tuple[Place, ast.expr] | None:
        which = argument_number(self.operation, self.point.wanted[self.number])
        return self.written.returned(*which) if self.written and which else None

    def at(self, tensor: torch.Tensor) -> torch.Tensor:
        """The values of a tensor of the input's shape at the positions looked at."""
        return tensor.expand(self.input.shape).reshape(-1)[self.positions]

    def fits(self, candidate: Candidate, number: int | None = None) -> bool:
        """Whether a candidate is the right gradient in both draws: of this input, or of wanted input `number`."""
        rights = [draw.right for draw in self.draws] if number is None else self.rights_of(number)
        for draw, right in zip(self.draws, rights, strict=True):
            proposed = candidate(draw)
            if proposed is None or proposed.numel() != self.input.numel():
                return False
            if not bool(self.equal(proposed.reshape(-1)[self.positions], right).all()):
                return False
        return True

    def equal(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Which entries are equal, as closely as can be told."""
        scale = max(float(b.abs().max()), 1e-12) if b.numel() else 1.0
        noise = 10 * self.wrong.slope.error / max(self.wrong.slope.size, 1e-300)
        return (a - b).abs() <= max(CLOSE, min(noise, self.wrong.slope.enough)) * scale

    @property
    def is_wrong(self) -> torch.Tensor:
        """Which of the entries looked at are wrong in the first draw."""
        return ~self.equal(self.at(self.draws[0].got), self.draws[0].right)

    def counted(self, entries: torch.Tensor) -> str:
        """`19 of 36 entries`, of those looked at."""
        looked = "" if self.positions.numel() == self.input.numel() else " looked at"
        every = entries.numel()
        return (
            f"all {every} entries{looked}"
            if bool(entries.all())
            else f"{int(entries.sum())} of {every} entries{looked}"
        )

    def rights_of(self, number: int) -> list[torch.Tensor]:
        """The right gradients of wanted input `number`, one for each draw, at the positions looked at.

        The input must have the shape of this one. Each entry is a central difference of its own.
        """
        if number not in self._rights:
            self._rights[number] = self._measured(number, [pull.us for pull in self.pulls])
        return self._rights[number]

    def right_for(self, us: Sequence[torch.Tensor]) -> torch.Tensor:
        """The right gradient of this input for another grad_output."""
        return self._measured(self.number, [self.whole(us)])[0]

    def diagonal(self) -> torch.Tensor:
        """d output / d input at the same place; the one output must have the shape of this input."""
        entries = []
        for position in self.positions.tolist():
            ahead, behind, step = self._around(self.number, position, self.wrong.slope.step)
            change = ahead[self.outputs[0]] - behind[self.outputs[0]]
            entries.append(change.reshape(-1)[position] / (2 * step))
        return torch.stack(entries)

    def _measured(self, number: int, draws: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
        step = self.wrong.slope.step
        found: list[list[torch.Tensor]] = []
        for position in self.positions.tolist():
            entry = self._entry(number, position, step, draws)
            if self.point.inputs[number].is_complex():
                imaginary = self._entry(number, position, step * 1j, draws)
                entry = [torch.complex(a, b) for a, b in zip(entry, imaginary, strict=True)]
            found.append(entry)
        return [torch.stack(each) for each in zip(*found, strict=True)]

    def _entry(
        self, number: int, position: int, step: complex, draws: Sequence[Sequence[torch.Tensor]]
    ) -> list[torch.Tensor]:
        ahead, behind, _ = self._around(number, position, step)
        changes = [a - b for a, b in zip(ahead, behind, strict=True)]
        sums = [sum(inner(u, asked(u, change)) for u, change in zip(us, changes, strict=True)) for us in draws]
        like = self.wrong.pull.us[0]
        return [torch.tensor(each / (2 * abs(step)), dtype=torch.float64, device=like.device) for each in sums]

    def _around(
        self, number: int, position: int, step: complex
    ) -> tuple[list[torch.Tensor], list[torch.Tensor], complex]:
        """The outputs with one entry of an input moved ahead and behind."""
        by = torch.zeros_like(self.point.inputs[number], memory_format=torch.contiguous_format)
        by.view(-1)[position] = torch.tensor(step, dtype=by.dtype)
        return self.point.moved(number, by), self.point.moved(number, -by), step

    def _positions(self, generator: torch.Generator) -> torch.Tensor:
        count = self.input.numel()
        began = time.perf_counter()
        self._entry(self.number, 0, self.wrong.slope.step, [self.wrong.pull.us])
        most = max(FEWEST, min(ENTRIES, int(SECONDS / (time.perf_counter() - began + 1e-9))))
        if count <= most:
            return torch.arange(count)
        return torch.randperm(count, generator=generator)[:most].sort().values

    def _gradient(self, pull: Pull) -> torch.Tensor:
        gradient = pull.gradients[self.number]
        return torch.zeros_like(self.input) if gradient is None else gradient.reshape(self.input.shape)
