"""What PyTorch refused: the expression of the user's that failed, and the tensors that it was given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType

import torch

from backsight.diagnosis.evidence.spoken import names_of
from backsight.naming.plain import class_name, is_class
from backsight.naming.roots import is_ours
from backsight.source.body import begins, callee
from backsight.source.rewriting import simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, method
from backsight.story.memory import is_module, is_tensor, needs_gradient
from backsight.tape import registered
from backsight.text import as_code
from backsight.tracing.callers import CALL_NAME

_MOST = 5


@dataclass(frozen=True, eq=False)
class Refusal:
    """An error that PyTorch raised below a line of the user's."""

    failure: Failure
    level: Level

    @cached_property
    def expression(self) -> ast.stmt | ast.expr | None:
        """What failed: the part of the statement that the exception passed, as far as that is known; else all of it."""
        statement, level = self.level.statement, self.level
        if statement is None or level.column is None:
            return statement
        parts = (node for node in ast.walk(statement) if isinstance(node, ast.Attribute | ast.Subscript))
        stored = (node for node in parts if isinstance(node.ctx, ast.Store | ast.Del))
        if any((*begins(node), _end(node)) == (level.line, level.column, level.end) for node in stored):
            return statement  # it was computed: what failed is to store it
        at = [
            node
            for node in ast.walk(statement)
            if isinstance(node, ast.Call | ast.BinOp | ast.UnaryOp | ast.Subscript | ast.Compare)
            and begins(node) == (level.line, level.column)
            and not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
        ]
        at = [node for node in at if _end(node) == level.end] or at
        inner = self.below[0].frame.f_code.co_name if self.below else ""  # of `f(x).g()` it tells which
        calls = [node for node in at if isinstance(node, ast.Call)]
        runs_module = (node for node in calls if "call_impl" in inner and is_module(value_of(level, node.func)))
        called = next((node for node in calls if callee(node)[1] == inner), None) or next(runs_module, None)
        return called or (at[0] if at else statement)

    @property
    def receiver(self) -> ast.expr | None:
        """Of a call of a method, what it is a method of."""
        return callee(self.expression)[0] if isinstance(self.expression, ast.Call) else None

    @cached_property
    def below(self) -> tuple[Level, ...]:
        """The levels of PyTorch's own below the line, outermost first."""
        after = self.failure.levels[self.failure.levels.index(self.level) + 1 :]
        codes = ((each, each.frame.f_code) for each in after)
        return tuple(each for each, code in codes if not is_ours(code.co_filename) and code.co_name != CALL_NAME)

    @property
    def is_custom(self) -> bool:
        """Whether it failed in the backward of a custom Function."""
        return self.level.runs_custom("backward")

    @property
    def text(self) -> str:
        body, node = self.level.body, self.expression
        return body.text(node) if body and node is not None else ""

    @cached_property
    def module(self) -> torch.nn.Module | None:
        """The module of PyTorch's in which it failed."""
        held = (each.variables.get("self") for each in reversed(self.below))
        return next((each for each in held if is_module(each)), None)

    @cached_property
    def module_name(self) -> str:
        name = names_of(self.failure, [self.module])[0] if self.module is not None else ""
        return as_code(name)

    @cached_property
    def tensors(self) -> list[tuple[str, torch.Tensor]]:
        """What the expression reads, what the module was given, and the module's own weights."""
        found = dict.fromkeys(read_by(self.level, self.expression))
        every = [(text, value) for text, value in found if is_tensor(value)]
        if not every and self.failure.call:
            roots = [each for each in self.failure.roots if is_tensor(each)]
            every = _named(self.failure, roots)
        if not every and self.below:
            every = _named(self.failure, [each for each in self.below[-1].variables.values() if is_tensor(each)])
        if self.module is not None:
            at = next((each for each in reversed(self.below) if each.variables.get("self") is self.module), None)
            given = at.variables.get("input") if at else None
            if is_tensor(given) and not any(value is given for _, value in every):
                every.append((f"the input of {self.module_name or class_name(type(self.module))}", given))
            own = registered(self.module, "_parameters").items()
            named = [(f"{self.module_name or 'its'}.{name}", each) for name, each in own if is_tensor(each)]
            every += [pair for pair in named if not any(value is pair[1] for _, value in every)]
        return every[:_MOST]


def _end(node: ast.expr) -> tuple[int | None, int | None]:
    return node.end_lineno, node.end_col_offset


def _named(failure: Failure, tensors: list[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
    """Those of the tensors that the program has a name for, each with it."""
    return [pair for pair in zip(names_of(failure, tensors), tensors, strict=True) if pair[0]]


def read_by(level: Level, node: ast.AST | None) -> Iterator[tuple[str, object]]:
    """The names, attributes and items that an expression reads, the longest that lead to a tensor or a module."""
    if node is None or level.body is None or isinstance(node, ast.Lambda):
        return
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        value = value_of(level, node)
        if is_tensor(value) or is_module(value):
            yield level.body.text(node), value
            return
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt):
            yield from read_by(level, child)


def called_when_built(level: Level, node: ast.expr | None) -> str:
    """What to write where a module is constructed with the inputs of its forward, `MSELoss(output, y)`, and was to be
    called: `MSELoss()(output, y)`. Empty unless it is given as many tensors as the forward takes, one of them computed,
    and all else by keywords."""
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
