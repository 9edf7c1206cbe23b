"""The methods of a `torch.autograd.Function`: which they are, and where they stand."""

from __future__ import annotations

import ast
import inspect
from types import FunctionType

import torch

from backsight.source import Body, Place, function_at
from backsight.source.body import statements


def method(cls: type, name: str) -> FunctionType | None:
    """Return the plain function behind a method; None where it is PyTorch's own or no Python function."""
    found = inspect.getattr_static(cls, name, None)
    if found is inspect.getattr_static(torch.autograd.Function, name, None):
        return None
    function = inspect.unwrap(getattr(found, "__func__", found)) if found is not None else None
    return function if isinstance(function, FunctionType) else None


def backward_of(cls: type) -> FunctionType | None:
    """Return the method that computes the gradients: `backward`, or `vjp`, its other name."""
    return method(cls, "backward") or method(cls, "vjp")


def body_of(function: FunctionType | None) -> Body | None:
    """Return the source of a function; None where it cannot be read."""
    return function_at(function.__code__) if function is not None else None


def place_of(function: FunctionType | None) -> Place | None:
    """Return where a function is defined: its `def` line, below its decorators."""
    body = body_of(function)
    return body.place(body.node) if body is not None and isinstance(body.node, ast.stmt) else None


def returned(body: Body) -> list[ast.expr]:
    """Return the expressions that a function returns, in source order."""
    return [each.value for each in statements(body.node) if isinstance(each, ast.Return) and each.value is not None]
