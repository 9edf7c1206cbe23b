"""The `torch.autograd.Function` behind a node: where its methods stand, and what they call their arguments."""

from __future__ import annotations

import ast
import inspect
from types import FunctionType
from typing import Any

import torch

from backsight.source import Body, Place, function_at
from backsight.source.body import statements
from backsight.tape._torch import forward_class


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


def parameters(function: FunctionType | None, given: int) -> tuple[str, ...]:
    """Return the names of the `given` arguments of a forward, `ctx` left out; `argument 2` where nothing tells."""
    code = function.__code__ if function is not None else None
    names = list(code.co_varnames[: code.co_argcount]) if code is not None else []
    starred = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if code and code.co_flags & 4 else ""
    if len(names) > given or (starred and names):
        names = names[1:]  # ctx: with setup_context there is none
    if starred:
        names += [f"{starred}[{k}]" for k in range(given - len(names))]
    names += [f"argument {k + 1}" for k in range(len(names), given)]
    return tuple(names[:given])


def names_of_edges(node: Any) -> tuple[str, ...]:
    """Return what stands behind each of a live node's edges: an argument of its forward, or `input 0`."""
    edges = [producer is not None for producer, _ in node.next_functions]
    cls = forward_class(type(node))
    numbered = tuple(f"input {k}" for k in range(len(edges)))
    if cls is None:
        return numbered
    needed = node.needs_input_grad
    names = parameters(method(cls, "forward"), len(needed))
    behind = iter([name for name, need in zip(names, needed, strict=True) if need])
    return tuple(next(behind, number) if edge else number for edge, number in zip(edges, numbered, strict=True))
