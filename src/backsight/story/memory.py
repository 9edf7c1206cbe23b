"""Tensors looked at past all that a subclass may override: their memory, their flags, what they are views of."""

from __future__ import annotations

from typing import Any, TypeGuard

import torch

from backsight.tape import looks_into, no_torch_function, parameters_in, storage_key, tensors_in


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    """Whether `value` is a tensor, by its type alone."""
    return issubclass(type(value), torch.Tensor)


def is_module(value: object) -> TypeGuard[torch.nn.Module]:
    """Whether `value` is a module, by its type alone."""
    return issubclass(type(value), torch.nn.Module)


def storage_of(value: object) -> int | None:
    """Return what identifies the memory of a tensor; None for anything else, and for a tensor without memory."""
    if not is_tensor(value):
        return None
    try:
        with no_torch_function():
            identity = storage_key(torch.Tensor.untyped_storage(value))
    except (RuntimeError, NotImplementedError):  # sparse, opaque and functorch tensors
        return None
    return identity


def shape_of(value: object) -> tuple[int, ...] | None:
    """Return the shape of a tensor; None for anything else."""
    shape = _read("shape", value)
    return None if shape is None else tuple(shape)


def may_have_gradient(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds what can have a gradient, and not integers or booleans."""
    return tensor.is_floating_point() or tensor.is_complex()


def needs_gradient(value: object) -> bool:
    """Whether `value` is a tensor that requires grad."""
    return bool(_read("requires_grad", value))


def holds_gradient(value: object) -> bool:
    """Whether a parameter of a module, or a tensor in another value, requires grad."""
    if is_module(value):
        return any(needs_gradient(each) for each in parameters_in(value))
    return any(is_tensor(each) and needs_gradient(each) for each in tensors_in(value))


def base_of(value: object) -> torch.Tensor | None:
    """Return the tensor that `value` is a view of; None if it is no view that autograd follows."""
    base = looks_into(value) if is_tensor(value) else None
    return base


def maker_of(value: object) -> Any:
    """Return the autograd node that made a tensor, or None.

    Raises:
        RuntimeError: for one of several views whose base was changed since: autograd has no history to tell.
    """
    return _read("grad_fn", value)


def gradient_of(value: object) -> torch.Tensor | None:
    """Return the gradient of a tensor; None if it has none, without PyTorch's warning about a result."""
    if maker_of(value) is not None and not _read("retains_grad", value):
        return None
    gradient: torch.Tensor | None = _read("grad", value)
    return gradient


def is_leaf(value: object) -> bool:
    """Whether `value`, or what it is a view of, is a leaf that requires grad."""
    return any(needs_gradient(each) and _is_leaf(each) for each in (value, base_of(value)))


def _is_leaf(value: object) -> bool:
    try:
        return bool(_read("is_leaf", value))
    except RuntimeError:  # a view whose history is lost, which no leaf is
        return False


def _read(attribute: str, value: object) -> Any:
    if not is_tensor(value):
        return None
    with no_torch_function():
        return getattr(torch.Tensor, attribute).__get__(value)
