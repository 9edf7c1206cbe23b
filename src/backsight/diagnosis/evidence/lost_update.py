"""Updates that an optimizer of the program's computes in its step and throws away."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

import torch

from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Evidence
from backsight.naming.roots import is_user_class
from backsight.source import Body, Place, function_at
from backsight.source.bindings import assigned, parameters_of, target_names, uses
from backsight.source.body import callee, calls_in, dotted, functions, statements
from backsight.source.out_of_place import arguments
from backsight.story.failure import method

_KINDS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_OF = frozenset({"p", "param", "parameter", "w", "weight", "theta"})
"""What a helper calls the parameter that it is given."""


class LostUpdate(NamedTuple):
    """A statement of a step that leaves a parameter as it was: what it is called, what is lost, and what to write."""

    place: Place
    name: str
    lost: str
    fix: str

    @property
    def shown(self) -> tuple[Evidence, ...]:
        """The statement as evidence."""
        return (shown(self.place, f"returns a new tensor and leaves {self.name} as it was."),)


def lost_update(optimizer: torch.optim.Optimizer) -> LostUpdate | None:
    """Return the first statement, in a step that the program has written or in what that calls, whose result is lost.

    A branch may not be taken, unless it asks for the gradient.
    """
    if not is_user_class(type(optimizer).__module__):
        return None
    step = method(type(optimizer), "step")
    for _ in range(8):
        step = getattr(step, "__wrapped__", step)  # no_grad() wraps it, and so does Optimizer
    body = function_at(step.__code__) if step is not None else None
    if body is None:
        return None
    called = {callee(n)[1] for s in statements(body.node) for n in calls_in(s)}
    helpers = (each for each in functions(body.file) if each.name in called - {"step"})
    return next((found for each in (body, *helpers) for found in _lost_in(each, is_helper=each is not body)), None)


def _lost_in(body: Body, *, is_helper: bool) -> Iterator[LostUpdate]:
    looped = {n for s in statements(body.node) if isinstance(s, ast.For) for n in target_names(s.target)}
    held = looped | (set(parameters_of(body.node)) & _OF if is_helper else set())
    for block in _blocks(body.node):
        for statement in block:
            match statement:
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=receiver, attr=op)) as call) if (
                    _root(receiver) in held and hasattr(torch.Tensor, f"{op}_") and hasattr(torch.Tensor, op)
                ):
                    text = body.text(receiver)
                    given = ", ".join(arguments(body, call))
                    yield LostUpdate(body.place(statement), text, op, f"Change it in place: {text}.{op}_({given}).")
            for target, value in assigned(statement):
                match target, value:
                    case ast.Name(id=name), ast.BinOp(left=left, op=operator, right=right) if (
                        name in held and _root(left) == name and not _is_read(body, statement, name)
                    ):
                        if kind := _KINDS.get(type(operator)):
                            fix = f"Change it in place: {name}.{kind}_({body.text(right)})."
                            yield LostUpdate(body.place(statement), name, kind, fix)


def _root(node: ast.expr) -> str:
    """Return the `p` of `p` and `p.data`."""
    return (dotted(node) or "").removesuffix(".data")


def _is_read(body: Body, statement: ast.stmt, name: str) -> bool:
    """Whether a variable, and not only its gradient, is used after a statement."""
    later = (s for s in statements(body.node) if s.lineno > (statement.end_lineno or 0))
    return any(use.name.split(".")[0] == name and ".grad" not in use.name for s in later for use in uses(s))


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the lists of statements of a function that run for each parameter, whatever the options are."""
    for field in ("body", "orelse"):
        block = getattr(node, field, [])
        if block and not (field == "orelse" and isinstance(node, ast.If)):
            yield block
        for each in block:
            if not isinstance(each, ast.If) or "grad" in ast.unparse(each.test):
                yield from _blocks(each)
