"""A layer as an operation, whose arguments are its inputs and its parameters: what autograd says is right of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from backsight.tape.errors import describe
from backsight.verification.directions import wide
from backsight.verification.operation import Kept, Operation
from backsight.verification.point import Clock, Point

FOREVER = float("inf")


def point_of(
    layer: nn.Module, inputs: tuple[torch.Tensor, ...], grad_out: torch.Tensor, asked: frozenset[str]
) -> Point:
    """Run a layer forward in double precision.

    Of inputs, only those have a gradient that is `asked` for: a target has none.

    Raises:
        ValueError: if `grad_out` has not the shape of the output, or the layer is random.
    """
    parameters = dict(layer.named_parameters())
    buffers = {name: wide(each.detach().clone()) for name, each in layer.named_buffers()}
    given = ("input",) if len(inputs) == 1 else tuple(f"input[{k}]" for k in range(len(inputs)))

    def call(*values: torch.Tensor) -> Any:
        tensors = dict(zip(parameters, values[len(inputs) :], strict=True)) | {n: b.clone() for n, b in buffers.items()}
        return functional_call(layer, tensors, values[: len(inputs)])

    wanted = [_is_real(x) and gradient_of(name) in asked for name, x in zip(given, inputs, strict=True)]
    arguments = [Kept(x.detach(), want) for x, want in zip(inputs, wanted, strict=True)]
    arguments += [Kept(each.detach(), True) for each in parameters.values()]
    _check(call, [wide(each.value) for each in arguments], grad_out)
    operation = Operation(type(layer).__name__, call, tuple(arguments), None, names=(*given, *parameters))
    return Point.of(operation, Clock(FOREVER))


def gradients(point: Point, grad_out: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the gradient of each parameter and input that has one: `weight_grad`, `0.bias_grad`, `input_grad`."""
    found = point.pulled([grad_out])
    names = [gradient_of(point.operation.argument(k)) for k in point.wanted]
    return {
        name: torch.zeros_like(x) if g is None else g for name, x, g in zip(names, point.inputs, found, strict=True)
    }


def gradient_of(argument: str) -> str:
    """Return `weight_grad`, or `input_grad[1]` for `input[1]`, as gradients are given."""
    return argument.replace("input[", "input_grad[") if argument.startswith("input[") else f"{argument}_grad"


def _check(call: Any, values: list[torch.Tensor], grad_out: torch.Tensor) -> None:
    made, again = (_seeded(call, values, seed) for seed in (0, 1))
    if not isinstance(made, torch.Tensor):
        raise ValueError(f"the layer returned a {type(made).__name__}; it must return one tensor.")
    if not torch.allclose(made, again, rtol=0, atol=0, equal_nan=True):
        raise ValueError(
            "the layer is random (dropout, for example): its gradient differs in each call. Call layer.eval() first."
        )
    if made.shape != grad_out.shape:
        raise ValueError(
            f"grad_out is a {describe(grad_out)}, but the layer returns a {describe(made.detach())}. grad_out is the "
            "gradient of the loss with respect to that output, so it must have the same shape."
        )


def _seeded(call: Any, values: list[torch.Tensor], seed: int) -> Any:
    with torch.random.fork_rng([]), torch.no_grad():
        torch.default_generator.manual_seed(seed)
        return call(*values)


def _is_real(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
