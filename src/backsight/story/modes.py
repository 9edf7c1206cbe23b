"""What disabled gradients where an operation ran: a `with` block or a decorator; what made an inference tensor."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from backsight.source import Body, Place, assignments, calls_of, function_at, only, parsed, read_at, statement_at
from backsight.source.bindings import spots
from backsight.source.body import callee, calls_in, dotted, expressions, functions, is_constant, last_name, statements
from backsight.source.cut_rules import grad_mode
from backsight.source.edits import put, remove, write
from backsight.story.evaluated import Variables, truth_of
from backsight.story.failure import Failure, Level
from backsight.story.files import user_files
from backsight.story.sections import function_called, methods_of, undecorated
from backsight.tracing import Line, Severed, current, inferred

_MODES = {"no_grad": ("no_grad", "inference_mode", "set_grad_enabled"), "inference": ("inference_mode",)}
"""What to look for, by what a watch says of a cut."""


@dataclass(frozen=True)
class Disabled:
    """A `with` block or a decorator that disables gradients.

    text: the expression that does it, `torch.no_grad()`.
    body: the function that it stands in; the decorator is its own, if `is_decorator`.
    calling: where the operation ran in another function, the statement inside that has called it.
    enabled: the block inside it that enables gradients in vain, as it does not end inference mode.
    depth: how many functions further out it stands.
    """

    place: Place
    text: str
    body: Body
    is_decorator: bool
    calling: Place | None = None
    enabled: Place | None = None
    depth: int = 0

    @property
    def function(self) -> str:
        """The name of the function that is decorated."""
        return self.body.name


def in_force(stack: Iterable[tuple[Body, int]], by: str = "no_grad") -> Iterator[Disabled]:
    """Yield all that disables gradients at a line, the innermost first: in its function, and in those that called it.

    stack: the function and the line, and those further out.
    """
    enabled, told = None, set[Place]()
    for depth, (body, line) in enumerate(stack):
        for place, node, is_decorator in _contexts(body, line):
            disables = _disables(body, node, _MODES[by])
            if disables is False:  # nothing further out can have disabled them
                return
            if disables and place not in told:  # a comprehension runs in a frame of its own
                told.add(place)
                yield Disabled(place, body.text(node), body, is_decorator, None, enabled, depth)
            elif enabled is None and grad_mode(node) == "on":
                enabled = place


def disabled_by(cut: Severed) -> Iterator[Disabled]:
    """Yield the blocks and decorators that were around an operation, in its own function and in those that called it.

    There is none after `torch.set_grad_enabled(False)`, or where something else has cut.
    """
    lines, bodies = list[Line](), list[tuple[Body, int]]()
    for line in (cut.line, *cut.callers) if cut.by in _MODES else ():
        body, _ = read_at(line.place if line is not None else None)
        # A lambda or a comprehension runs elsewhere than it stands, or its function is among the callers.
        if line is not None and body is not None and not line.function.endswith(("<lambda>", "<genexpr>", "comp>")):
            lines.append(line)
            bodies.append((body, line.line))
    for off in in_force(bodies, cut.by):
        line = lines[off.depth]
        yield replace(off, calling=None if line is cut.line else line.place)


def disabled_at(body: Body, line: int, by: str = "no_grad") -> Disabled | None:
    """Return the block or decorator that disables gradients at a line of a function, as its text shows."""
    return next(in_force([(body, line)], by), None)


def nearest_at(body: Body, line: int) -> Disabled | Literal[False] | None:
    """Return the innermost block or decorator at a line of a function that disables gradients; False where it enables
    them, None where there is neither."""
    around = (_disables(body, node, _MODES["no_grad"]) for _, node, _ in _contexts(body, line))
    known = next((each for each in around if each is not None), None)
    return disabled_at(body, line) if known else known


def enabled_within(body: Body, line: int, off: Place) -> bool:
    """Whether gradients are enabled at a line, by a block around it inside another that disables them."""
    inside = itertools.takewhile(lambda each: each[0].line != off.line, _contexts(body, line))
    enabled = any(grad_mode(node) == "on" for _, node, _ in inside)
    return enabled and not any(each.place.line == off.line for each in in_force([(body, line)], "inference"))


def is_sure(level: Variables, off: Disabled) -> bool:
    """Whether a context has disabled gradients, whatever it was told: not in `torch.set_grad_enabled(training)`."""
    node = parsed(off.text)
    if node is None:
        return False
    if isinstance(node, ast.Call):
        told = [*node.args, *(each.value for each in node.keywords)]
        kept = level.value(dotted(node.func) or "")
        if not told and any(kept is each for each in (torch.no_grad, torch.inference_mode)):
            return True
        wanted = callee(node)[1] == "inference_mode"
        if callee(node)[1] == "no_grad" or (wanted and not told):
            return True
        return len(told) == 1 and truth_of(level, told[0]) is wanted
    held = level.value(dotted(node) or "")
    return off.is_decorator or type(held) in (torch.no_grad, torch.inference_mode)


_INFERENCE = re.compile(r"(?<![\w.])(torch\.)?inference_mode(\((mode=)?(True)?\))?(?![\w(])")


def without_inference(head: str) -> str:
    """Return a `with` or decorator with `torch.no_grad()` for inference mode; the same if it has none."""
    return _INFERENCE.sub("torch.no_grad()", head)


def headed(place: Place, head: str) -> str:
    """Return the edit that writes another `with` or decorator, whichever stands there."""
    return f"{remove(place)}{put(head, 'above', place)}" if head.startswith("@") else str(write(place, head))


def _contexts(body: Body, line: int) -> Iterator[tuple[Place, ast.expr, bool]]:
    """Yield the contexts around a line, the innermost first: those of `with` blocks, and the decorators."""
    blocks = [each for each in statements(body.node) if isinstance(each, ast.With) and _is_in(each.body, line)]
    for block in reversed(blocks):
        yield from ((body.place(block), item.context_expr, False) for item in reversed(block.items))
    for decorator in reversed(getattr(body.node, "decorator_list", ())):
        yield body.place(decorator, f"@{body.text(decorator)}"), decorator, True


def _is_in(block: Sequence[ast.stmt], line: int) -> bool:
    return block[0].lineno <= line <= (block[-1].end_lineno or block[-1].lineno)


def _disables(body: Body, node: ast.expr, modes: Sequence[str]) -> bool | None:
    """Whether a context disables gradients, or enables them; None if it does neither. It may be held by a variable."""
    held = (statement_at(each, *at.position) for each, at in _holding(body, node))
    written = [node, *(part for each in held for part in expressions(each))]
    named = any(last_name(each.func if isinstance(each, ast.Call) else each) in modes for each in written)
    if grad_mode(node) == "on":  # within inference mode, `enable_grad` alone records nothing
        return False if named or "no_grad" in modes else None
    return True if named else None


def _holding(body: Body, node: ast.expr) -> Iterator[tuple[Body, Place]]:
    """The statements that give a context its value, where a variable or an attribute holds it, `with self.mode():`."""
    name = dotted(node.func if isinstance(node, ast.Call) else node) or ""
    for each in (body, *(functions(body.file) if name.startswith("self.") else ())):
        yield from ((each, at) for at in (assignments(each, name) if name else ()))


def chosen_at(body: Body, context: str) -> Place | None:
    """Return the one statement that chooses a context which the text of its block does not show."""
    node = parsed(context)
    hidden = node is not None and grad_mode(node) is None
    return only(at for _, at in _holding(body, node)) if hidden and node is not None else None


def switches(failure: Failure) -> Iterator[Place]:
    """Yield the statements of the user's files that disable gradients for all that follows."""
    for file in user_files(failure):
        for body, statement, call in calls_of(file):
            off = callee(call)[1] == "set_grad_enabled" and call.args and is_constant(call.args[0], False)
            if off and not isinstance(statement, ast.With):
                yield body.place(statement)


_DEPTH = 3


@dataclass(frozen=True)
class Block:
    """A `with torch.inference_mode():` or such a decorator; `made` is the statement that called it, if elsewhere, or
    the one inside that a watch has seen to make the tensor."""

    place: Place
    what: str
    made: Place | None = None


def inference_seen(tensor: torch.Tensor) -> Block | None:
    """Return the block or function in which a watch has seen a tensor made, or what it is a view of."""
    watch = current()
    made = inferred(watch, tensor) if watch is not None else None
    off = next(disabled_by(made), None) if made is not None else None
    if made is None or made.line is None or off is None:
        return None
    return Block(off.place, "its block", made.line.place)


def inference_block(failure: Failure, name: str) -> Block | None:
    """Return the block or function under inference mode in which the variable `name` was given its value."""
    for level in failure.users:
        for body, at in _assignments(level, name):
            statement = statement_at(body, *at.position)
            block = _around(body, statement) if statement is not None else None
            if block is None and statement is not None:
                block = _called(level, statement, _DEPTH)
                block = Block(block.place, block.what, at) if block is not None else None
            if block is not None:
                return block
    for level in failure.users[1:]:  # what a call has returned may have been handed on without a name
        block = _called(level, level.statement, _DEPTH) if level.statement else None
        if block is not None:
            return Block(block.place, block.what, level.place)
    return None


def _assignments(level: Level, name: str) -> Iterator[tuple[Body, Place]]:
    """The statements that assign a variable, the container that it is an item of, or the object that has it."""
    parts = name.partition("[")[0].split(".")
    for end in range(len(parts), 0, -1):
        variable = ".".join(parts[:end])
        for place in reversed(assignments(level.body, variable)) if level.body else ():
            yield level.body, place  # type: ignore[misc]  # there is a body, or there were no places
        owner, _, attribute = variable.rpartition(".")
        for body in methods_of(type(level.value(owner))) if owner and level.value(owner) is not None else ():
            yield from ((body, place) for place in assignments(body, f"self.{attribute}"))


def _around(body: Body, statement: ast.stmt) -> Block | None:
    """The inference mode that a statement stands in."""
    off = disabled_at(body, statement.lineno, "inference")
    what = f"{off.function or 'the function'}()" if off is not None and off.is_decorator else "this block"
    return Block(off.place, what) if off is not None else None


def _called(level: Level, statement: ast.stmt, depth: int) -> Block | None:
    """The inference mode in which a function that the statement calls makes what it returns."""
    for call in calls_in(statement):
        function = undecorated(function_called(level, call)[0])
        inner = function_at(function.__code__) if type(function).__name__ == "function" else None
        if inner is None:
            continue
        returns = [each.node for each in spots(inner.node) if isinstance(each.node, ast.Return)]
        for each in returns or inner.node.body[-1:]:
            found = _around(inner, each) or (_called(level, each, depth - 1) if depth > 1 else None)
            if found is not None:
                return found
    return None
