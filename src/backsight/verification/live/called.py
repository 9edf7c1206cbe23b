"""`Called`: the case of `verify_graph`: a backward that can be called, of an operation whose forward is not known.

Of its right gradient only this is known: it is linear in what arrives. So a draw is held against what remains of their
sum without the other draw.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from backsight.verification.case import Case, Draw, Known
from backsight.verification.live.trial import Trial


class Called(Case):
    """The gradient of one input of a live node."""

    known = Known.BACKWARD

    def __init__(self, trial: Trial, number: int):
        self._trial = trial
        self.number = number
        self.subject = trial.subject
        self.argument = trial.inputs[number]
        self.grad_output = trial.grad_output
        self.definition = trial.definition
        self.outputs = tuple(k for k, u in enumerate(trial.u) if u is not None)
        self.returned_none = trial.cls is not None and trial.raw[number] is None
        if self.returned_none:
            self.draws = []
            return
        first, second, together = trial.of_u[number], trial.of_v[number], trial.of_both[number]
        assert first is not None and second is not None and together is not None
        self.together = together
        self.positions = torch.arange(first.numel())
        us, vs = ([each for each in made if each is not None] for made in (trial.u, trial.v))
        self.draws = [
            Draw(us, first, (together - second).reshape(-1)),
            Draw(vs, second, (together - first).reshape(-1)),
        ]

    @property
    def shape(self) -> torch.Size:
        return self.draws[0].got.shape

    @property
    def place(self) -> tuple[int, int] | None:
        return self._trial.place_of(self.number)

    def equal(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self._trial.apart(a, b, [draw.got for draw in self.draws]) <= self._trial.precision

    def backward(self, us: Sequence[torch.Tensor]) -> torch.Tensor | None:
        full: list[torch.Tensor | None] = [None] * len(self._trial.u)
        for k, u in zip(self.outputs, us, strict=True):
            full[k] = u
        return self._trial.called(full)[self.number]
