"""The backward of an operation as an operation of its own, so that its gradient can be tested like any other.

The second derivative is the derivative of (x, u) -> J(x)ᵀ u, which is what a backward computes. Recorded with
`create_graph=True` it is a differentiable function of x and u, and what holds for every operation holds for it:
<w, J' v> = <J'ᵀ w, v>. Differences give the left side, double backward gives the right one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad

from backsight.tape import grad_fn
from backsight.tape.walk import walk
from backsight.verification.directions import drawn
from backsight.verification.errors import CannotTest
from backsight.verification.operation import Kept, Operation, flattened, tensors_of
from backsight.verification.point import Point


@dataclass(frozen=True, eq=False)
class Pullback:
    """A call makes J(x)ᵀ u for each input x of `operation` that a gradient is wanted for."""

    operation: Operation

    def __call__(self, *arguments: Any) -> tuple[torch.Tensor, ...]:
        """Return the gradients. The arguments are the leaves of the operation's, then u for each output."""
        recorded = torch.is_grad_enabled()
        wanted = self.operation.wanted
        own = list(arguments[: len(self.operation.arguments)])
        _refuse_tangents(arguments)
        us = arguments[len(own) :]
        with torch.enable_grad():
            inputs = [own[k] if recorded else own[k].detach().requires_grad_() for k in wanted]
            for k, each in zip(wanted, inputs, strict=True):
                own[k] = each.clone()  # the operation may work in place
            outputs = differentiable(self.operation.call(own))
            found = torch.autograd.grad(outputs, inputs, us, create_graph=recorded, allow_unused=True)
        if recorded and any(_delayed_error(g) for g in found):
            raise CannotTest("it is marked @once_differentiable: a second derivative raises instead of being wrong")
        none = 0 * us[0].sum()  # what depends on nothing has a derivative too: zero
        return tuple(
            torch.zeros_like(x) + none.real if g is None else g if g.requires_grad else g + none.real
            for g, x in zip(found, inputs, strict=True)
        )


def pullback(point: Point, generator: torch.Generator) -> Operation:
    """Return the backward of the operation at `point` as an operation of its own.

    Raises:
        CannotTest: if the operation hands on what it changed in place instead of returning it.
    """
    operation = point.operation
    us = [Kept(drawn(each, generator), True) for each in point.outputs]
    kept = [_kept(operation, k, value) for k, value in enumerate(point.values)]
    if not us or len(differentiable_of(point)) != len(us):
        raise CannotTest("it modifies an argument in place and does not return it")
    arguments = (*kept, *us)
    _, spec = flattened(arguments, {})
    function: Callable[..., Any] = Pullback(operation)
    return Operation(operation.name, function, arguments, spec, operation.site, None, operation.generators)


def argument(operation: Operation, position: int) -> str:
    """Return what an argument of an operation's backward is called: grad_output stands behind the operation's own."""
    own = len(operation.arguments)
    return operation.argument(position) if position < own else "grad_output"


def differentiable(result: Any) -> list[torch.Tensor]:
    """Return the tensors of a result that carry a gradient."""
    return [each for each in tensors_of(result) if each.requires_grad and each.layout is torch.strided]


def differentiable_of(point: Point) -> list[torch.Tensor]:
    """Return what the operation at `point` returns that carries a gradient."""
    values = list(point.values)
    with torch.enable_grad():
        for k in point.wanted:
            values[k] = values[k].detach().requires_grad_().clone()
        return differentiable(point.operation.call(values))


def _refuse_tangents(arguments: tuple[Any, ...]) -> None:
    """Forward mode through a backward is as blind as double backward to what forward kept: it is no witness.

    Raises:
        NotImplementedError: where an argument has a tangent.
    """
    unpacked: Any = forward_ad.unpack_dual
    for each in arguments:
        if isinstance(each, torch.Tensor) and unpacked(each).tangent is not None:
            raise NotImplementedError("a second derivative is tested only by finite differences")


def _delayed_error(gradient: torch.Tensor | None) -> bool:
    """Whether a gradient comes out of a backward that is marked @once_differentiable.

    Only a pass through its node would raise, and a pass that asks for the gradient of the inputs goes around it.
    """
    made = None if gradient is None else grad_fn(gradient)
    return made is not None and any(type(node).__name__ == "Error" for node in walk([made]).nodes)


def _kept(operation: Operation, position: int, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return Kept(value.detach(), position in operation.wanted)
