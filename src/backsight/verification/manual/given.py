"""`Given`: the case of `assert_manual_backward`: a gradient is given, for one grad_out, and autograd says the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from backsight.verification.case import Case, Draw, Known, own_forward
from backsight.verification.point import Point


class Given(Case):
    """A gradient that somebody derived, and that is not the one of autograd.

    `tolerance` is how much the two may differ, relative to the largest entry; `others` is all that was given, by the
    number of the input.
    """

    known = Known.FORWARD
    grad_output = "grad_out"
    outputs = (0,)

    def __init__(
        self,
        point: Point,
        number: int,
        grad_out: torch.Tensor,
        others: Mapping[int, torch.Tensor],
        right: torch.Tensor,
        tolerance: float,
    ):
        self.point = point
        self.number = number
        self.subject = f"The manual backward of {point.operation.name}"
        self.argument = self.argument_of(number)
        self.tolerance = tolerance
        self.positions = torch.arange(right.numel())
        self.draws = [Draw([grad_out], others[number], right.reshape(-1))]
        self._others = others

    def equal(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return alike(a, b, self.tolerance)

    def rights_of(self, number: int) -> list[torch.Tensor]:
        gradient = self.point.pulled(self.draws[0].us)[number]
        return [torch.zeros_like(self.input).reshape(-1) if gradient is None else gradient.reshape(-1)]

    def right_for(self, us: Sequence[torch.Tensor]) -> torch.Tensor:
        gradient = self.point.pulled(us)[self.number]
        return torch.zeros_like(self.input).reshape(-1) if gradient is None else gradient.reshape(-1)

    def diagonal(self) -> torch.Tensor:
        unit = torch.zeros_like(self.output)
        entries = []
        for k in range(unit.numel()):
            unit.view(-1)[k] = 1
            entries.append(self.right_for([unit])[k])
            unit.view(-1)[k] = 0
        return torch.stack(entries)

    def returned_for(self, number: int) -> list[torch.Tensor | None]:
        return [self._others.get(number)]

    def run(self, x: torch.Tensor) -> Sequence[torch.Tensor]:
        made: torch.Tensor = own_forward(self.point, self.number, x, self.operation.call)
        return [made]


def close(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> bool:
    """Whether two tensors are equal to within a part of the largest entry of the second."""
    return a.shape == b.shape and bool(alike(a, b, tolerance).all())


def alike(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Which entries are; NaN is like NaN, and infinity like itself."""
    sizes = b[torch.isfinite(b)].abs()
    largest = float(sizes.max()) if sizes.numel() else 0.0
    return ((a - b).abs() <= tolerance * largest) | (a == b) | ((a != a) & (b != b))
