"""What the names of a text mean: `grad` is `torch.autograd.grad`, by its imports, also with a star, and assignments."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import ChainMap, Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from keyword import iskeyword
from types import MappingProxyType, ModuleType
from typing import Any

# What such a name means where the text does not bind it: the cell of a notebook, a part of a line.
_USUAL: Mapping[str, str] = {
    **{name: name for name in ("torch", "numpy", "math", "functorch")},
    **{name: f"torch.{name}" for name in ("nn", "autograd", "func", "linalg", "special", "fft")},
    **{name: f"torch.nn.{name}" for name in ("functional", "init")},
    "np": "numpy",
    "F": "torch.nn.functional",
    "grad": "torch.autograd.grad",
}
LIBRARIES = ("torch", "numpy", "math", "functorch")

_SCOPES = (ast.FunctionDef, ast.ClassDef, ast.Lambda)
_MEANING = "_backsight_meaning"


def meaning(node: ast.AST | None) -> str | None:
    """What an expression names of a library or of another file; None for what the text makes itself.

    >>> meaning(call.func)      # from torch import autograd as ag; ag.grad(loss, w)
    'torch.autograd.grad'
    """
    root, rest = _path(node)
    known: str = getattr(root, _MEANING, _USUAL.get(root.id, "")) if root is not None else ""
    return ".".join([known, *rest]) if known else None


def library(node: ast.AST | None) -> str:
    """The library that an expression names a part of: "torch" for `F.relu`; empty for `x.relu`, and for what has no
    name."""
    root = (meaning(node) or "").partition(".")[0]
    return root if root in LIBRARIES else ""


def is_gradient_call(call: ast.expr) -> bool:
    """Whether a call is one of `torch.autograd.grad`, by whatever name; `torch.func.grad` is given a function alone."""
    if not isinstance(call, ast.Call) or meaning(call.func) != "torch.autograd.grad":
        return False
    return len(call.args) > 1 or any(each.arg == "inputs" for each in call.keywords)


def imported_by(tree: ast.Module) -> dict[str, str]:
    """The names that a module imports, or assigns from what it does, each with what it means."""
    return {name: means for name, means in _bound(list(_own(tree)), {}).items() if means}


def note_meanings(tree: ast.Module, known: Mapping[str, str] = MappingProxyType({})) -> None:
    """Note at each name of a text what it means there; an empty text where the program has bound it itself.

    `known` are the names that it has without binding them: those of a notebook's other cells.
    """
    stack: list[tuple[ast.AST, ChainMap[str, str]]] = [(tree, ChainMap(dict(known)))]
    while stack:
        scope, outer = stack.pop()
        own = list(_own(scope))
        here = outer.new_child(_bound(own, outer))
        for node in own:
            if isinstance(node, ast.Name) and node.id in here:
                setattr(node, _MEANING, here[node.id])
        inner = outer if isinstance(scope, ast.ClassDef) else here  # methods do not see the names of their class
        stack += [(node, inner) for node in own if isinstance(node, _SCOPES)]


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a scope in source order, without those of the scopes in it."""
    stack = [*reversed(list(ast.iter_child_nodes(scope)))]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _SCOPES):
            stack += reversed(list(ast.iter_child_nodes(node)))


def _bound(nodes: Iterable[ast.AST], outer: Mapping[str, str]) -> dict[str, str]:
    """The names that a scope binds, each with what it means: what is imported, or assigned once from what is."""
    names = Counter(name for node in nodes if (name := _binds(node)))
    found = dict.fromkeys(names, "")
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name, means in _imported(node):
                found[name] = found.get(name) or means  # of two in a `try`, the first
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name, (root, rest) = node.targets[0].id, _path(node.value)
            means = found.get(root.id, outer.get(root.id, "")) if root is not None else ""
            if means and names[name] == 1 and not found[name]:
                found[name] = ".".join([means, *rest])
    return found


def _binds(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return name
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
    return ""


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    for each in node.names:
        if isinstance(node, ast.ImportFrom):
            yield each.asname or each.name, f"{'.' * node.level}{node.module or ''}.{each.name}"
        else:
            yield each.asname or each.name.partition(".")[0], each.name if each.asname else each.name.partition(".")[0]


def _path(node: ast.AST | None) -> tuple[ast.Name | None, list[str]]:
    """A name, and the attributes behind it; none of any other expression."""
    rest: list[str] = []
    while isinstance(node, ast.Attribute):
        rest.insert(0, node.attr)
        node = node.value
    return (node, rest) if isinstance(node, ast.Name) else (None, [])


_STAR = re.compile(r"^[ \t]*from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]*\*", re.MULTILINE)
_NAMESPACE: Any = vars(ModuleType)["__dict__"]
"""Past what a lazy module answers with code of its own."""


@lru_cache(maxsize=64)
def starred(source: str) -> tuple[str, ...]:
    """The modules that a text imports with a star, as it writes them: `torch.nn`, `.layers`."""
    return tuple(_STAR.findall(source))


def loaded(module: str, importer: str) -> Mapping[str, object]:
    """The namespace of a module as a file imports it; empty where it is not loaded."""
    name = module.lstrip(".")
    found = sys.modules.get(name) if name == module else _beside(module, importer)
    return _NAMESPACE.__get__(found) if issubclass(type(found), ModuleType) else {}


def import_of_each(module: str, held: Mapping[str, object]) -> str:
    """An import of each name that the star stands for."""
    listed = held.get("__all__")
    names = listed if isinstance(listed, list | tuple) else [each for each in held if not each.startswith("_")]
    plain = (each for each in names if type(each) is str and each.isidentifier() and not iskeyword(each))
    return f"from {module} import {', '.join(plain)}"


def _beside(module: str, importer: str) -> object:
    """The module that a relative import means: the one whose file lies there."""
    name = module.lstrip(".")
    folder = os.path.abspath(importer)
    for _ in range(len(module) - len(name)):
        folder = os.path.dirname(folder)
    path = os.path.join(folder, *name.split(".")) if name else folder
    files = (f"{path}.py", os.path.join(path, "__init__.py"))
    every = (each for each in list(sys.modules.values()) if issubclass(type(each), ModuleType))
    return next((each for each in every if _NAMESPACE.__get__(each).get("__file__") in files), None)
