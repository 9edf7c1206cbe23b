"""What an expression of a failing statement stands for, read without evaluating anything of the user's."""

from __future__ import annotations

import ast
from typing import Any, Protocol

import torch

from backsight.source.body import dotted
from backsight.story.failure import entry_of, follow
from backsight.tape import registered


class Variables(Protocol):
    """What knows the variables of a function: a level of a traceback, a function that has returned."""

    def value(self, name: str) -> object: ...


def value_of(level: Variables, node: ast.expr | None) -> object:
    """The value of a name, of attributes, and of items of plain containers: `layers[0].weight`; else None."""
    name = dotted(node)
    if name is not None:
        return level.value(name)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        number = node.operand.value
        return -number if isinstance(number, int) else None
    if isinstance(node, ast.Attribute):
        return follow(value_of(level, node.value), [node.attr])
    if isinstance(node, ast.Subscript):
        return _item(value_of(level, node.value), value_of(level, node.slice))
    return None


def truth_of(level: Variables, node: ast.expr) -> bool | None:
    """Whether a condition holds, of plain values alone: `training`, `not evaluate`, `phase == "train"`; else None."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            inside = truth_of(level, inner)
            return None if inside is None else not inside
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[right]):
            one, other = value_of(level, left), value_of(level, right)
            if type(one) not in _PLAIN or type(other) not in _PLAIN:
                return None
            return (one == other) is isinstance(op, ast.Eq)
    held = value_of(level, node)
    return held if type(held) is bool else None


_PLAIN = (bool, int, float, str)


def _item(held: Any, key: object) -> object:
    """The item of a list, tuple or dict, or of a module that numbers or names its children."""
    if type(key) not in (int, str):
        return None
    if type(held) is dict:
        return held.get(key)
    if type(held) in (list, tuple):
        return held[key] if type(key) is int and -len(held) <= key < len(held) else None
    if issubclass(type(held), torch.nn.Sequential | torch.nn.ModuleList) and type(key) is int and key < 0:
        key += len(registered(held, "_modules"))
    return entry_of(held, str(key)) if issubclass(type(held), torch.nn.Module) else None
