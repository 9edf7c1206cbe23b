"""What a function may change beside its result: random generators, buffers and modes of modules. All is put back."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from backsight.random_state import random_state_kept
from backsight.tape import modules_in
from backsight.verification._torch import same_versions


@contextmanager
def kept(function: Callable[..., Any]) -> Iterator[None]:
    """Put the random generators, and the buffers of the modules that a function uses, back to what they were."""
    buffers = [(*held, held[-1].detach().clone()) for module in modules_of(function) for held in _buffers(module)]
    with random_state_kept(), same_versions(buffer for _, _, buffer, _ in buffers):  # a live graph may have saved them
        try:
            yield
        finally:
            for registry, name, buffer, before in buffers:
                registry[name] = buffer  # an assignment in forward may have replaced it
                restore(buffer, before)


def restore(tensor: torch.Tensor, before: torch.Tensor) -> None:
    """Write back the values that a tensor had, unless it has them still: a write would count a version."""
    if tensor.layout is torch.strided and tensor.shape == before.shape and not _same(tensor, before):
        with torch.no_grad():
            tensor.copy_(before)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a, b) or torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


def modules_of(function: Callable[..., Any]) -> list[torch.nn.Module]:
    """The modules behind a function: itself, what it is a method of, what it closes over and the globals it names."""
    while isinstance(function, functools.partial):
        function = function.func
    if issubclass(type(function), torch.nn.Module):
        return [function]  # type: ignore[list-item]  # its type was just tested
    held: list[Any] = [getattr(function, "__self__", None)]
    if inspect.isfunction(inspect.unwrap(function)):
        plain = inspect.unwrap(function)
        closed = inspect.getclosurevars(plain)
        held += [*closed.nonlocals.values(), *closed.globals.values(), *(plain.__defaults__ or ())]
    return [each for each in held if issubclass(type(each), torch.nn.Module)]


def _buffers(model: torch.nn.Module) -> Iterator[tuple[dict[str, Any], str, torch.Tensor]]:
    for _, module in modules_in(model):
        registry = object.__getattribute__(module, "__dict__").get("_buffers", {})
        for name, buffer in list(registry.items()):
            lazy = isinstance(buffer, torch.nn.UninitializedBuffer)  # it has no values yet
            if isinstance(buffer, torch.Tensor) and not (lazy or buffer.is_inference() or buffer.is_meta):
                yield registry, name, buffer
