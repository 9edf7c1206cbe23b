"""A module that was constructed with the inputs of its forward, `MSELoss(output, y)`, where it was to be called."""

from __future__ import annotations

import ast
from types import FunctionType

import torch

from backsight.diagnosis.evidence.refused import read_by
from backsight.naming.plain import is_class
from backsight.source.rewriting import simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Level, method
from backsight.story.memory import is_module, needs_gradient


def called_when_built(level: Level, node: ast.expr | None) -> str:
    """What to write instead of such a call, `MSELoss()(output, y)`; empty unless it gives as many tensors as the
    forward takes, one of them computed, and all else by keywords."""
    cls = value_of(level, node.func) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or not is_class(cls) or not issubclass(cls, torch.nn.Module) or not node.args:
        return ""
    forward, init, body = method(cls, "forward"), method(cls, "__init__"), level.body
    if forward is None or init is None or body is None or "…" in body.text(node):
        return ""
    given, named = [[held for _, held in read_by(level, each)] for each in node.args], [k.arg for k in node.keywords]
    if len(_due(forward)) != len(given) or not all(given) or {*_due(init)} - {*named} or None in named:
        return ""
    parts = any(is_module(value_of(level, each)) for each in node.args)  # of which it is made
    if parts or not any(needs_gradient(held) or is_module(held) for every in given for held in every):
        return ""
    settings = ", ".join(f"{each.arg}={body.text(each.value)}" for each in node.keywords)
    return f"{simple(body.text(node.func))}({settings})({', '.join(map(body.text, node.args))})"


def _due(function: FunctionType) -> list[str]:
    """The arguments that a method must be given."""
    code, plain, keyed = function.__code__, function.__defaults__ or (), function.__kwdefaults__ or {}
    names, count = code.co_varnames, code.co_argcount
    own = names[count : count + code.co_kwonlyargcount]
    return [*names[1 : count - len(plain)], *(each for each in own if each not in keyed)]
