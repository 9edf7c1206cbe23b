"""`Measured`: the case of `verify`. The right gradient is that of the forward, by differences.

There are two independent draws of grad_output: with one, a gradient of a single entry would be a constant factor of
anything.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

from backsight.verification.case import Case, Draw, Known, own_forward
from backsight.verification.directions import asked, drawn, inner
from backsight.verification.operation import tensors_of
from backsight.verification.trial import Pull, Wrong, pulled
from backsight.verification.wording import number
from backsight.verification.written import argument_number

ENTRIES = 256
"""So many entries of a gradient are compared with the right ones, each of which costs two calls of the forward."""

SECONDS, FEWEST = 1.0, 4
"""And no more of them than fit into this time, but a few in any case."""

CLOSE = 1e-4
"""Entries this close, relative to the largest, are equal."""


class Measured(Case):
    """A gradient that is not what differences of the forward say."""

    known = Known.FORWARD | Known.BACKWARD

    def __init__(self, wrong: Wrong, generator: torch.Generator):
        self.wrong = wrong
        self.number = wrong.number
        self.point = wrong.pull.point
        self.definition = self.operation.definition
        self.subject = self.operation.backward
        self.argument = self.argument_of(self.number)
        if self.written:
            self.grad_output = self.written.grad_output
        self.returned_none = wrong.pull.gradients[self.number] is None
        self.positions = self._positions(generator)
        self.outputs = tuple(range(len(wrong.pull.us)))
        other = pulled(self.point, [drawn(u, generator).where(u != 0, 0.0) for u in wrong.pull.us])
        self._draw(wrong.pull, other)
        if len(self.outputs) > 1:
            self._narrow()

    def _draw(self, *pulls: Pull) -> None:
        self._pulls = pulls
        self._rights: dict[int, list[torch.Tensor]] = {}
        rights = self.rights_of(self.number)
        self.draws = [Draw(self._seen(p.us), self._gradient(p), right) for p, right in zip(pulls, rights, strict=True)]

    def _narrow(self) -> None:
        """Of several outputs look at the first one whose part of the gradient is wrong, with no gradient to others."""
        everything = self._pulls
        for only in range(len(everything[0].us)):
            us = [[u if k == only else torch.zeros_like(u) for k, u in enumerate(pull.us)] for pull in everything]
            self.outputs = (only,)
            self._draw(*[pulled(self.point, each) for each in us])
            if bool(self.is_wrong.any()):
                self.through = f" through output {only}"
                return
        self.outputs = tuple(range(len(everything[0].us)))
        self._draw(*everything)

    def _seen(self, us: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [us[k] for k in self.outputs]

    def _whole(self, us: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return a grad_output for every output, zeros for those that are not looked at."""
        full = [torch.zeros_like(u) for u in self.wrong.pull.us]
        for k, u in zip(self.outputs, us, strict=True):
            full[k] = u
        return full

    @property
    def symmetric(self) -> bool:
        return self.point.reads_one_triangle(self.number)

    @property
    def place(self) -> tuple[int, int] | None:
        return argument_number(self.operation, self.point.wanted[self.number])

    def backward(self, us: Sequence[torch.Tensor]) -> torch.Tensor:
        gradient = self.point.pulled(self._whole(us))[self.number]
        return torch.zeros_like(self.input) if gradient is None else self._comparable(self.number, gradient)

    def returned_for(self, number: int) -> list[torch.Tensor | None]:
        gradients = [pull.gradients[number] for pull in self._pulls]
        return [None if each is None else self._comparable(number, each) for each in gradients]

    def run(self, x: torch.Tensor) -> Sequence[torch.Tensor] | None:
        definition = self.definition
        if definition is None or definition.forward is None or self.operation.spec is not None:
            return None
        custom: Any = self.operation.custom
        forward: Any = custom.forward if custom is not None else definition.forward

        def call(values: list[Any]) -> Any:
            return forward(_Context(len(values)), *values) if definition.takes_ctx else forward(*values)

        made = tensors_of(own_forward(self.point, self.number, x, call))
        made = [each for each in made if each.is_floating_point() or each.is_complex()]
        return [made[k] for k in self.outputs]

    def equal(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        scale = max(float(b.abs().max()), 1e-12) if b.numel() else 1.0
        noise = 10 * self.wrong.slope.error / max(self.wrong.slope.size, 1e-300)
        return (a - b).abs() <= max(CLOSE, min(noise, self.wrong.slope.enough)) * scale

    def unfitting(self) -> str:
        return (
            f"Along a random direction it says {number(self.wrong.found)} where forward changes by "
            f"{number(self.wrong.slope.value)}; the entries checked are right."
        )

    def rights_of(self, number: int) -> list[torch.Tensor]:
        if number not in self._rights:
            self._rights[number] = self._measured(number, [pull.us for pull in self._pulls])
        return self._rights[number]

    def right_for(self, us: Sequence[torch.Tensor]) -> torch.Tensor:
        return self._measured(self.number, [self._whole(us)])[0]

    def diagonal(self) -> torch.Tensor:
        entries = []
        for position in self.positions.tolist():
            ahead, behind, step = self._around(self.number, position, self.wrong.slope.step)
            change = ahead[self.outputs[0]] - behind[self.outputs[0]]
            entries.append(change.reshape(-1)[position] / (2 * step))
        return torch.stack(entries)

    def _measured(self, number: int, draws: Sequence[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
        """Each entry is a central difference of its own."""
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
        by = self._comparable(number, by)
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
        if gradient is None:
            return torch.zeros_like(self.input)
        return self._comparable(self.number, gradient.reshape(self.input.shape))

    def _comparable(self, number: int, gradient: torch.Tensor) -> torch.Tensor:
        """The symmetric part of the gradient of a matrix of which forward reads one triangle; of others all of it."""
        return (gradient + gradient.mH) / 2 if self.point.reads_one_triangle(number) else gradient


class _Context:
    """Stands for `ctx` where forward runs by itself."""

    def __init__(self, count: int):
        self.needs_input_grad = (True,) * count
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def _ignored(self, *given: Any) -> None:
        pass

    save_for_forward = mark_dirty = mark_non_differentiable = set_materialize_grads = _ignored
