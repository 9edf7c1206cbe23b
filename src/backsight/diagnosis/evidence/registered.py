"""The statements that register hooks, each with what its hook returns, as the text shows them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from types import CodeType
from typing import Any

from backsight.source import Body, Place, function_at, only
from backsight.source.body import body_around, callee, calls_in, dotted, expressions, functions, statements
from backsight.source.callables import Callable, callables

OF_MODULES = {
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "register_backward_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
}
OF_TENSORS = {"register_hook", "register_prehook", "register_post_accumulate_grad_hook"}


@dataclass(frozen=True, eq=False)
class Registered:
    """A statement that registers a hook, as the text shows it.

    on: what it is registered on, `hidden`; function: the hook; results: what that returns, each with its place.
    has_name: whether PyTorch can name it: it names no `partial` and no object.
    taken: what a `partial` gives the function by name, and how many by position.
    """

    place: Place
    on: str
    method: str
    hook: ast.expr
    results: tuple[tuple[Place, ast.expr], ...]
    function: ast.AST | None
    has_name: bool = True
    taken: tuple[frozenset[str], int] = (frozenset(), 0)

    @cached_property
    def refused(self) -> tuple[Place, ast.expr, Body | None] | None:
        """The one statement of the hook that returns something else than the gradient, what it returns, and the
        function around it."""
        found = only(each for each in self.results if not keeps(each[1], self.first))
        return (*found, body_around(found[0].file, found[0].line)) if found is not None else None

    @property
    def returned(self) -> ast.expr | None:
        return self.refused[1] if self.refused is not None else None

    @property
    def name(self) -> str:
        """The name that PyTorch's message has for it."""
        if isinstance(self.function, ast.Lambda):
            return "<lambda>"
        return getattr(self.function, "name", "") or (dotted(self.hook) or "").rpartition(".")[2]

    @property
    def may_return(self) -> bool:
        """Whether it may return something else than the gradient that it was given."""
        if self.function is None:
            return True
        return any(not keeps(value, self.first) for _, value in self.results)

    @property
    def first(self) -> str:
        """What the hook calls the gradient."""
        arguments: Any = getattr(self.function, "args", None)
        of_node = self.method not in OF_TENSORS or self.on.endswith("grad_fn")
        if not isinstance(arguments, ast.arguments) or of_node:
            return ""
        by_name, by_position = self.taken
        needed = arguments.args[: len(arguments.args) - len(arguments.defaults)] or arguments.args
        own = [each.arg for each in needed if each.arg not in ("self", "cls")][by_position:]
        return next((each for each in own if each not in by_name), "")

    def fits(self, name: str) -> bool:
        """Whether a message that calls the hook by this name may mean it."""
        if self.method in OF_MODULES and name == "hook":  # PyTorch's own, which runs those of modules
            return True
        if name == "<unknown>":  # a partial, an object that can be called
            return not self.has_name or self.function is None
        return self.has_name and self.name == name

    def is_of(self, code: CodeType) -> bool:
        """Whether it is of the function of a code object."""
        body, mine = function_at(code), self.function
        at = (body.node.lineno, body.node.col_offset) if body and not isinstance(body.node, ast.Module) else None
        return self.place.file == code.co_filename and (at is not None) and _position(mine) == at


def _position(node: Any) -> tuple[int, int] | None:
    return (node.lineno, node.col_offset) if node is not None else None


def registrations(file: str, *also: str) -> Iterator[Registered]:
    """Every statement of a file that registers a hook on gradients, or by a method of another name: once for each
    function that the hook may be."""
    bodies = list(functions(file))
    for body in bodies:
        for statement in statements(body.node):
            for node in calls_in(statement):
                if callee(node)[1] in OF_MODULES | OF_TENSORS | {*also} and node.args:
                    yield from _registered(body, statement, node, bodies)


def _registered(body: Body, statement: ast.stmt, call: ast.Call, bodies: list[Body]) -> Iterator[Registered]:
    receiver, method = callee(call)
    place, on = body.place(statement), body.text(receiver) if receiver is not None else ""
    found = {_position(each.node): each for each in callables(call.args[0], body, bodies)}
    for each in found.values():
        results = tuple(_results(each, body, statement))
        yield Registered(place, on, method, call.args[0], results, each.node, each.has_name, (each.names, each.count))
    if not found:
        yield Registered(place, on, method, call.args[0], (), None)


def _results(function: Callable, body: Body, statement: ast.stmt) -> Iterator[tuple[Place, ast.expr]]:
    """What a function returns, each with its place: of a lambda the statement that registers it, if it is there."""
    for each in statements(function.body.node):
        if isinstance(each, ast.Return) and each.value is not None and not is_none(each.value):
            if not isinstance(function.node, ast.Lambda):
                yield function.body.place(each), each.value
            elif function.node in expressions(statement):
                is_below = function.node.lineno != statement.lineno
                yield body.place(function.node, body.text(statement)) if is_below else body.place(statement), each.value
            else:
                yield function.body.place(function.node), each.value


def is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def keeps(value: ast.expr, gradient: str) -> bool:
    """Whether an expression surely has the shape and the dtype of the gradient: `grad`, `-grad`, `2 * grad`."""
    match value:
        case ast.Name(id=name):
            return name == gradient
        case ast.UnaryOp(operand=operand):
            return keeps(operand, gradient)
        case ast.BinOp(left=left, right=right):
            plain = [isinstance(getattr(each, "operand", each), ast.Constant) for each in (left, right)]
            return (keeps(left, gradient) and plain[1]) or (keeps(right, gradient) and plain[0])
        case ast.Call(func=ast.Attribute(value=receiver, attr=attr)):
            return attr in ("clamp", "clone", "contiguous", "detach") and keeps(receiver, gradient)
    return False
