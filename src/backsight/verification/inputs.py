"""The inputs of a verification: copies of what the user gave, of which a gradient is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

from backsight.tape.errors import describe
from backsight.verification.errors import NothingToVerify
from backsight.verification.operation import Kept, Operation, flattened, tensors_of


def copied(inputs: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return copies of the tensors in the arguments, which the function may change in place.

    Those that require a gradient still do; if none does, all floating-point and complex ones do. No copy is a leaf:
    PyTorch refuses to change a leaf in place.
    """
    every = not any(each.requires_grad for each in tensors_of((inputs, keywords)))
    made: dict[int, torch.Tensor] = {}

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in made:
            made[id(value)] = _copy(value, every)
        return made[id(value)]

    args, kwargs = tree_map(copy, (inputs, keywords))
    return args, kwargs


def _copy(tensor: torch.Tensor, every: bool) -> torch.Tensor:
    wanted = _wanted(tensor, every)
    fresh = tensor.detach().clone()
    if not wanted:
        return fresh
    with torch.enable_grad():
        return fresh.requires_grad_().clone()


def _wanted(tensor: torch.Tensor, every: bool) -> bool:
    return tensor.requires_grad or (every and (tensor.is_floating_point() or tensor.is_complex()))


def whole(function: Callable[..., Any], inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Operation:
    """Return the function itself as one operation, for what it does unseen."""
    flat, spec = flattened(inputs, keywords)
    every = not any(isinstance(each, torch.Tensor) and each.requires_grad for each in flat)
    kept = [
        Kept(each.detach().clone(), _wanted(each, every)) if isinstance(each, torch.Tensor) else each for each in flat
    ]
    return Operation(f"{called(function)} as a whole", function, tuple(kept), spec, differentiates=True)


def called(function: Callable[..., Any]) -> str:
    """What a function is called: `loss_fn`, `Linear`, `lambda`."""
    name: str = getattr(function, "__name__", type(function).__name__)
    return name.strip("<>")


def nothing(by: str, function: Callable[..., Any], inputs: tuple[Any, ...], result: Any) -> NothingToVerify:
    """Say why nothing that ran has a gradient: nothing that `by`, a function of ours, has called."""
    name = called(function)
    tensors, outputs = tensors_of(inputs), tensors_of(result)
    if outputs and not any(each.is_floating_point() or each.is_complex() for each in outputs):
        return NothingToVerify(
            f"{by}() called {name}, which returned {_a(outputs[0])}: integers and booleans have no gradient. "
            "Return what they were made from."
        )
    if not any(each.is_floating_point() or each.is_complex() for each in tensors):
        given = _a(tensors[0]) if tensors else "no tensor"
        return NothingToVerify(
            f"{by}() called {name} with {given}, and used no parameter that requires grad: there is nothing to "
            "differentiate with respect to. Pass a floating-point tensor."
        )
    return NothingToVerify(
        f"{by}() called {name}, and nothing it ran has a backward: it returns its input unchanged, does not use it, "
        "detaches it, or computes under torch.no_grad()."
    )


def _a(tensor: torch.Tensor) -> str:
    text = describe(tensor)
    return f"an {text}" if text.startswith("int") else f"a {text}"
