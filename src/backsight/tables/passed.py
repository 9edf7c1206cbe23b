"""What a program passes for the parameters of a function that are no tensors, as far as its source text says."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from backsight.source import function_at

_UNKNOWN = object()


def passed(name: str, parameters: Sequence[str], beside: ModuleType | None) -> dict[str, Any]:
    """Return the numbers, texts and tuples that calls in the file of a module pass for parameters of a function.

    A call passes a literal, or a name that stands for one: a global of the module, a parameter with a default, or an
    attribute of `self` that got one.
    """
    try:
        tree = ast.parse(Path(getattr(beside, "__file__", None) or "").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    program = _Program(tree, vars(beside))
    found: dict[str, Any] = {}
    for call, scopes in program.calls(name.rpartition(".")[2]):
        given = dict(zip(parameters, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg}
        for parameter, value in given.items():
            if (plain := program.plain(value, scopes)) is not _UNKNOWN:
                found.setdefault(parameter, plain)
    return found


def never_differentiated(function: type[torch.autograd.Function]) -> set[int]:
    """Return the positions of the inputs for which every `return` of a backward has None."""
    code = getattr(function.backward, "__code__", None)
    body = function_at(code) if code else None
    returns = [each.value for each in ast.walk(body.node) if isinstance(each, ast.Return)] if body else []
    values = [each.elts for each in returns if isinstance(each, ast.Tuple)]
    if not values or len(values) < len(returns):
        return set()
    return set.intersection(*({i for i, each in enumerate(row) if _is_none(each)} for row in values))


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


_Scopes = tuple[ast.FunctionDef | ast.ClassDef, ...]
"""The functions and classes around an expression, the outermost first."""


class _Program:
    def __init__(self, tree: ast.Module, values: Mapping[str, Any]):
        self.values = values
        self.nodes: list[tuple[ast.AST, _Scopes]] = []
        left: list[tuple[ast.AST, _Scopes]] = [(tree, ())]
        while left:
            node, scopes = left.pop()
            self.nodes.append((node, scopes))
            inner = (*scopes, node) if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else scopes
            left += [(each, inner) for each in reversed(list(ast.iter_child_nodes(node)))]

    def calls(self, name: str) -> Iterator[tuple[ast.Call, _Scopes]]:
        """Yield the calls of a function, or of `apply` of a Function, also by a name that stands for that."""
        called = {name, f"{name}.apply"}
        for node, _ in self.nodes:
            if isinstance(node, ast.Assign) and ast.unparse(node.value) in called:
                called |= {ast.unparse(target) for target in node.targets}
        for node, scopes in self.nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func) in called and not _is_starred(node):
                yield node, scopes

    def plain(self, value: ast.expr, scopes: _Scopes, depth: int = 4) -> Any:
        """Return what an expression is, if that is no tensor and can be read from the text."""
        try:
            return ast.literal_eval(value)
        except (ValueError, TypeError):
            pass
        match value:
            case ast.Name(id=name) if depth:
                function = next((each for each in reversed(scopes) if isinstance(each, ast.FunctionDef)), None)
                if function is not None and name in (own := _own(function)):
                    default = own[name]
                    return _UNKNOWN if default is None else self.plain(default, (), depth - 1)
                known = self.values.get(name, _UNKNOWN)
                return known if isinstance(known, (bool, int, float, str)) else _UNKNOWN
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if depth:
                owner = next((each for each in reversed(scopes) if isinstance(each, ast.ClassDef)), None)
                for node, around in self.nodes:
                    if (
                        owner in around
                        and isinstance(node, ast.Assign)
                        and f"self.{name}" in map(ast.unparse, node.targets)
                    ):
                        return self.plain(node.value, around, depth - 1)
        return _UNKNOWN


def _is_starred(call: ast.Call) -> bool:
    return any(isinstance(each, ast.Starred) for each in call.args)


def _own(function: ast.FunctionDef) -> dict[str, ast.expr | None]:
    """Return a function's parameters with their defaults, and its variables; None for what has no value of its own."""
    given = function.args
    positional = [each.arg for each in (*given.posonlyargs, *given.args)]
    without = len(positional) - len(given.defaults)
    own: dict[str, ast.expr | None] = dict(zip(positional, [*[None] * without, *given.defaults], strict=True))
    own |= zip((each.arg for each in given.kwonlyargs), given.kw_defaults, strict=True)
    stored = (each.id for each in ast.walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    return own | dict.fromkeys(stored)
