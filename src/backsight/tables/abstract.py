"""Which method of a `torch.autograd.Function` is left to the classes that derive from it."""

from __future__ import annotations

import ast
import inspect

import torch

from backsight.source import function_at

_METHODS = {"forward": ("forward",), "backward": ("backward", "vjp")}


def unwritten(function: type[torch.autograd.Function]) -> str:
    """Return `forward` or `backward` where a Function, a base of others, does not define it; "" where it has both."""
    return next((name for name, spelt in _METHODS.items() if not any(_written(function, each) for each in spelt)), "")


def _written(function: type, name: str) -> bool:
    found = inspect.getattr_static(function, name, None)
    if found is inspect.getattr_static(torch.autograd.Function, name, None):
        return False
    plain = inspect.unwrap(getattr(found, "__func__", found))
    if getattr(found, "__isabstractmethod__", False):
        return False
    body = function_at(plain.__code__) if inspect.isfunction(plain) else None
    return body is None or not isinstance(body.node, ast.FunctionDef) or not all(map(_is_stub, body.node.body))


def _is_stub(statement: ast.stmt) -> bool:
    """Whether a statement does nothing, or says that this is not implemented."""
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Raise(exc=ast.Name(id=name)) | ast.Raise(exc=ast.Call(func=ast.Name(id=name))):
            return name == "NotImplementedError"
    return False
