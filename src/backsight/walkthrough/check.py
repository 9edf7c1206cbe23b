"""Is this node's backward right? What it returns, held against the Jacobian of the operation put together again.

Forward-mode differentiation has formulas of its own (the `result:` lines of derivatives.yaml), so it is an independent
witness: for every tangent u, <J u, g> = <u, Jᵀ g>. Where an operation has none, reverse mode is run again, which shows
that what the node saved is still what the forward pass saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from backsight.tape import load_forward_mode
from backsight.walkthrough.gradient import number
from backsight.walkthrough.rebuilt import NotRebuilt, Operation

SMALL = 64
"""Inputs of so many elements in all have every column of the Jacobian compared; larger ones some random directions."""

DIRECTIONS = 4

Vector = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Check:
    """Whether what a node returned is Jᵀ g.

    ```python
    print(step.check)       # checked against forward-mode AD: agrees exactly
    ```

    `ok` is None where it could not be checked, and `why` says why. `error` is the largest difference, relative to the
    largest value compared.
    """

    ok: bool | None
    method: Literal["forward mode", "forward mode, some directions", "reverse mode", ""] = ""
    error: float = 0.0
    why: str = ""

    def __str__(self) -> str:
        if self.ok is None:
            return f"not checked: {self.why}"
        mode, _, part = self.method.partition(" mode")
        against = f"checked against {mode}-mode AD{part.replace(',', ' in')}"
        if not self.ok:
            return f"{against}: node(g) ≠ Jᵀ g, the largest difference is {number(self.error)}"
        return f"{against}: agrees {f'to {self.error:.0e}' if self.error else 'exactly'}"


def checked(operation: Operation, gradients: Sequence[torch.Tensor | None], results: Sequence[torch.Tensor]) -> Check:
    """Compare `results`, which the node made of `gradients`, with the Jacobian of `operation`.

    gradients: one for each output of the node, None where none came.
    results: one for each of the operation's inputs.
    """
    came = [k for k, g in enumerate(gradients) if g is not None]
    given = tuple(g for g in gradients if g is not None)

    def outputs(*inputs: torch.Tensor) -> Vector:
        return tuple(operation(*inputs)[k] for k in came)

    shapes = [tuple(made.shape) for made in outputs(*operation.inputs)]
    if shapes != [tuple(g.shape) for g in given]:
        raise NotRebuilt("not all of its arguments are kept: rebuilt from the rest, its result has a different shape")
    try:
        return _forward(outputs, operation.inputs, given, tuple(results))
    except (NotImplementedError, RuntimeError):  # no forward-mode formula; torch says so in either way
        pullback = torch.func.vjp(outputs, *operation.inputs)[1]
        eps = _precision(operation.inputs, given, tuple(results))
        return _compared(tuple(results), pullback(given), eps, "reverse mode")


def _forward(outputs: Any, inputs: Vector, gradients: Vector, results: Vector) -> Check:
    """Compare by pushing tangents forward: <J u, g> must be <u, Jᵀ g>."""
    count = sum(x.numel() for x in inputs)
    eps = _precision(inputs, gradients, results)
    if count <= SMALL:
        products = [_pushed(outputs, inputs, _basis(inputs, k), gradients) for k in range(count)]
        ours = torch.cat([result.reshape(-1) for result in results])
        theirs = torch.stack(products) if products else torch.zeros(0)
        return _compared((ours,), (theirs.to(ours.device),), eps, "forward mode")
    generator = torch.Generator(inputs[0].device).manual_seed(0)
    scale = float(_inner(results, results).sqrt())  # of <u, r> for random u, as one element is of all
    error = 0.0
    for _ in range(DIRECTIONS):
        tangents = tuple(torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=generator) for x in inputs)
        difference = float((_inner(tangents, results) - _pushed(outputs, inputs, tangents, gradients)).abs())
        error = max(error, difference / scale if scale else difference)
    return _verdict(error, eps, "forward mode, some directions")


def _pushed(outputs: Any, inputs: Vector, tangents: Vector, gradients: Vector) -> torch.Tensor:
    """Return <J u, g> for the tangents u."""
    load_forward_mode()
    pushed = torch.func.jvp(outputs, inputs, tangents)[1]
    return _inner(pushed, gradients)


def _basis(inputs: Vector, column: int) -> Vector:
    """Return tangents that are one at element `column`, counted over all inputs, and zero elsewhere."""
    tangents = []
    for x in inputs:
        tangent = torch.zeros_like(x, memory_format=torch.contiguous_format)
        if 0 <= column < x.numel():
            tangent.view(-1)[column] = 1
        column -= x.numel()
        tangents.append(tangent)
    return tuple(tangents)


def _compared(ours: Vector, theirs: Vector, eps: float, method: Any) -> Check:
    worst = 0.0
    for a, b in zip(ours, theirs, strict=True):
        if a.numel():
            a, b = a.double(), b.double()
            difference = float(torch.where(a == b, 0.0, (a - b).abs()).max())
            scale = float(b.abs().max())
            worst = max(worst, difference / scale if scale else difference) if difference == difference else difference
    return _verdict(worst, eps, method)


def _verdict(error: float, eps: float, method: Any) -> Check:
    return Check(error <= eps**0.4, method, error)


def _precision(*vectors: Vector) -> float:
    """Return the relative precision of the coarsest dtype."""
    return max(torch.finfo(x.dtype).eps for vector in vectors for x in vector if x.is_floating_point())


def _inner(a: Vector, b: Vector) -> torch.Tensor:
    return torch.stack([(x.double() * y.double()).sum() for x, y in zip(a, b, strict=True)]).sum()
