"""`Mistake`: a gradient that was given and is not right, with what is needed to find out how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import nn

from backsight.verification.manual.reference import Reference, Replace


class Told(NamedTuple):
    """How a gradient is wrong: `The weight_grad is` + `title`, and sentences of evidence and fix."""

    title: str
    evidence: str
    fix: str


@dataclass(frozen=True, eq=False)
class Mistake:
    """A gradient as it was given, the right one, and how much they may differ, relative to the largest entry."""

    name: str
    given: torch.Tensor
    right: torch.Tensor
    tolerance: float
    reference: Reference

    @property
    def layer(self) -> nn.Module:
        """The layer whose gradient it is."""
        return self.reference.layer

    @property
    def parameter(self) -> str:
        """Of what it is the gradient: `weight`, `0.bias`, `input`."""
        return self.name.removesuffix("_grad") if self.name.endswith("_grad") else self.name.replace("_grad", "")

    @cached_property
    def others(self) -> dict[str, torch.Tensor]:
        """The right gradients of the other parameters and inputs."""
        return {name: each for name, each in self.reference.gradients().items() if name != self.name}

    def would_be(self, grad_out: torch.Tensor | None = None, replace: Replace | None = None) -> torch.Tensor:
        """Return the gradient for another grad_out, or with steps replaced."""
        return self.reference.gradients(grad_out, replace)[self.name]

    def is_given(self, other: torch.Tensor) -> bool:
        """Whether `other` is what was given, to within the tolerance."""
        return close(self.given, other, self.tolerance)

    def becomes_right(self, change: Callable[[torch.Tensor], torch.Tensor]) -> bool:
        """Whether what was given is right once it is changed."""
        return close(change(self.given), self.right, self.tolerance)

    @property
    def wrong(self) -> torch.Tensor:
        """Which entries differ."""
        return ~_alike(self.given, self.right, self.tolerance)


def close(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> bool:
    """Whether two tensors are equal to within a part of the largest entry of the second."""
    return a.shape == b.shape and bool(_alike(a, b, tolerance).all())


def _alike(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Which entries are; NaN is like NaN, and infinity like itself."""
    sizes = b[torch.isfinite(b)].abs()
    largest = float(sizes.max()) if sizes.numel() else 0.0
    return ((a - b).abs() <= tolerance * largest) | (a == b) | ((a != a) & (b != b))
