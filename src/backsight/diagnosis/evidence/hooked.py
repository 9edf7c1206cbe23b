"""Hooks of modules whose result takes the place of what the module was given, or returns."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import NamedTuple

import torch

from backsight.source import Place, function_at
from backsight.source.body import statements
from backsight.story.failure import function_of
from backsight.tape import modules_in
from backsight.tracing import Severed

_KINDS = (("_forward_hooks", "forward hook", "output"), ("_forward_pre_hooks", "forward pre-hook", "input"))


class Hook(NamedTuple):
    """The statement of a hook that returns something, what it is called, and what it replaces."""

    place: Place
    name: str
    kind: str
    replaces: str


def hook_around(models: Iterable[torch.nn.Module], cut: Severed) -> Hook | None:
    """Return the hook of a module in which a gradient is cut off, if it returns something."""
    if cut.line is None:
        return None
    for module in (m for model in models for _, m in modules_in(model)):
        for attribute, kind, replaces in _KINDS:
            for hook in list((module.__dict__.get(attribute) or {}).values()):
                code = getattr(function_of(hook), "__code__", None)
                body = function_at(code) if code is not None and code.co_filename == cut.line.file else None
                if body is not None and body.node.lineno <= cut.line.line <= (body.node.end_lineno or 0):  # type: ignore[union-attr]  # no module
                    for each in statements(body.node):
                        if isinstance(each, ast.Return) and not _is_nothing(each.value):
                            name = getattr(body.node, "name", "")
                            return Hook(body.place(each), name if name.isidentifier() else "the hook", kind, replaces)
    return None


def _is_nothing(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)
