"""Forward hooks that return something, and so replace what goes through their modules: `return out.detach()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch

from backsight.naming.plain import namespace
from backsight.source import Body, Cut, Place, cuts, function_at
from backsight.source.bindings import assigned
from backsight.source.body import callee, calls_in, statements
from backsight.source.definitions import FILLING
from backsight.source.edits import on_line
from backsight.story.failure import function_of
from backsight.story.fixes import removed
from backsight.tape import modules_in
from backsight.text import listed
from backsight.tracing import Line

_KINDS = (("_forward_hooks", "forward hook", "output"), ("_forward_pre_hooks", "forward pre-hook", "input"))


@dataclass(frozen=True, eq=False)
class Hook:
    """A function that is a hook of modules, and what it returns.

    kind: what such a hook is called; replaces: what of its module it replaces. modules: what the program calls those
    that it is on.
    """

    body: Body
    returns: ast.Return
    kind: str
    replaces: str
    modules: list[str]

    @property
    def place(self) -> Place:
        return self.body.place(self.returns)

    @property
    def does(self) -> str:
        return f"is a {self.kind}: what it returns replaces the {self.replaces} of {listed(self.modules, 3)}."

    @cached_property
    def cut(self) -> Cut | None:
        """What cuts off what it returns; `seen.setdefault(name, out.detach())` returns what it stores."""
        value = self.returns.value
        if isinstance(value, ast.Call) and callee(value)[1] == "setdefault" and len(value.args) > 1:
            value = value.args[1]
        found = cuts(self.body, self.body.text(value), value.lineno) if value is not None else ()
        return next(iter(found), None)

    @property
    def fix(self) -> str:
        """How it returns nothing, where it keeps what it returns; else what it may return. Without a full stop."""
        value, body = self.returns.value, self.body
        if isinstance(value, ast.Call) and callee(value)[1] in FILLING and body.name != "<lambda>":
            return f"Let the hook return nothing: {on_line(self.place, ast.unparse(value))}, without return"
        kept = {ast.unparse(target) for each in statements(body.node) for target, _ in assigned(each)}
        if isinstance(value, ast.Attribute | ast.Subscript) and ast.unparse(value) in kept:
            return f"Let the hook return nothing: {removed(body.place(self.returns))}, `{body.text(self.returns)}`"
        what = self.cut.expression if self.cut is not None else "a new tensor"
        return (
            f"If the hook is to look only, let it store {what} and return nothing. If it is to replace the "
            f"{self.replaces}, it must return it with its graph, without {what}"
        )


def hooks(models: Mapping[str, torch.nn.Module]) -> list[Hook]:
    """Return the hooks of models, and of what is in them, that return something; each function once."""
    found: dict[tuple[str, int, int], Hook] = {}
    for name, model in models.items():
        for path, module in modules_in(model):
            for hook in _of_module(module, f"{name}.{path}" if path else name):
                known = found.setdefault((hook.body.file, hook.returns.lineno, hook.returns.col_offset), hook)
                known.modules.extend(each for each in hook.modules if each not in known.modules)
    return list(found.values())


def hook_around(models: Mapping[str, torch.nn.Module], line: Line | None) -> Hook | None:
    """Return the hook of a module that runs a line."""
    return next((each for each in hooks(models) if line is not None and _is_in(line, each.body)), None)


def _is_in(line: Line, body: Body) -> bool:
    first, last = getattr(body.node, "lineno", 0), getattr(body.node, "end_lineno", 0)
    return body.file == line.file and first <= line.line <= last


def _of_module(module: torch.nn.Module, name: str) -> Iterator[Hook]:
    for table, kind, replaces in _KINDS:
        held = (namespace(module) or {}).get(table)
        for value in held.values() if isinstance(held, dict) else ():
            if (hook := _hook(value, kind, replaces, name)) is not None:
                yield hook


def _hook(value: Any, kind: str, replaces: str, module: str) -> Hook | None:
    code = getattr(function_of(value.func if type(value) is partial else value), "__code__", None)
    body = function_at(code) if code is not None else None
    every = statements(body)
    returns = [each for each in every if isinstance(each, ast.Return) and not _is_nothing(each.value)]
    found = [Hook(body, each, kind, replaces, [module]) for each in returns if body is not None]
    return next((each for each in found if each.cut), next(iter(found), None))


def asking_hook(module: torch.nn.Module) -> Place | None:
    """Return the statement of a forward hook of a module that asks for a gradient of what it returns."""
    held = (namespace(module) or {}).get("_forward_hooks")
    for value in held.values() if isinstance(held, dict) else ():
        code = getattr(function_of(value), "__code__", None)
        body = function_at(code) if code is not None else None
        for each in statements(body):
            if body is not None and any(callee(call)[1] == "requires_grad_" for call in calls_in(each)):
                return body.place(each)
    return None


def _is_nothing(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)
