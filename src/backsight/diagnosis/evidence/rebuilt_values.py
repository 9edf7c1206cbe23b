"""Parameters that a module reads in calls such as `torch.tensor([self.k, self.c])` alone, which copy their values."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from backsight.naming.roots import is_library, is_ours
from backsight.source import Body, Place, function_at
from backsight.source.body import callee, calls_in, dotted, statements
from backsight.tape import modules_in, registered

_COPIES = frozenset({"tensor", "Tensor", "FloatTensor", "DoubleTensor"})


@dataclass(frozen=True)
class Copied:
    """The statement that copies the values of parameters, that call, what would keep the graph, and whose they are."""

    place: Place
    call: str
    attached: str
    parameters: tuple[torch.Tensor, ...]


def copied_values(models: Iterable[torch.nn.Module], lost: Collection[int]) -> Copied | None:
    """Return the one call that copies the values of some parameters with the ids `lost`, of one module.

    No gradient can reach a parameter that no method of its module reads otherwise.
    """
    for module in (each for model in models for _, each in modules_in(model)):
        held = registered(module, "_parameters").items()
        own = {name: p for name, p in held if isinstance(p, torch.Tensor) and id(p) in lost}
        bodies = list(_methods(type(module))) if own else []
        calls = [found for body in bodies for found in _copying(body, own)]
        if len(calls) != 1:
            continue
        body, statement, call = calls[0]
        inside = {id(node) for node in ast.walk(call)}
        read = {n.attr for n in ast.walk(call) if isinstance(n, ast.Attribute) and _is_own(n, own)}
        if any(_is_own(n, read) and id(n) not in inside for each in bodies for n in ast.walk(each.node)):
            continue
        values = tuple(own[name] for name in own if name in read)
        scalars = all(each.dim() == 0 for each in values)
        attached = ast.unparse(_stacked(call.args[0], read)) if scalars else ""
        return Copied(body.place(statement), body.text(call), attached, values)
    return None


def _methods(kind: type) -> Iterator[Body]:
    """Yield the methods of the program's in a class of modules, without what makes it."""
    held: dict[str, Any] = {}
    for each in reversed(kind.__mro__):
        held |= {name: getattr(value, "fget", value) for name, value in vars(each).items()}
    for name, value in held.items():
        if isinstance(value, FunctionType) and name not in ("__init__", "reset_parameters"):
            file = value.__code__.co_filename
            body = None if is_library(file) or is_ours(file) else function_at(value.__code__)
            if body is not None:
                yield body


def _copying(body: Body, names: Collection[str]) -> Iterator[tuple[Body, ast.stmt, ast.Call]]:
    """Yield the calls that copy a display of numbers, in which attributes of `self` of these names stand."""
    for statement in statements(body.node):
        for call in calls_in(statement):
            shown = call.args[0] if call.args and callee(call)[1] in _COPIES else None
            if isinstance(shown, ast.List | ast.Tuple) and any(_is_own(n, names) for n in ast.walk(shown)):
                yield body, statement, call


def _is_own(node: ast.AST, names: Collection[str]) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in names and dotted(node.value) == "self"


def _stacked(value: ast.expr, names: Collection[str]) -> ast.expr:
    """Return a display of tensors as calls of torch.stack, and of what is no parameter as a tensor."""
    if isinstance(value, ast.List | ast.Tuple):
        inner = ast.List([_stacked(each, names) for each in value.elts], ast.Load())
        return ast.Call(ast.parse("torch.stack", mode="eval").body, [inner], [])
    if any(_is_own(each, names) for each in ast.walk(value)):
        return value
    return ast.Call(ast.parse("torch.as_tensor", mode="eval").body, [value], [])
