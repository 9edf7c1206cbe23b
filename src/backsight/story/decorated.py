"""A decorator that disables gradients in what is trained: who else calls its function, and what is to stay without."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from backsight.source import Body, Place, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, spots, target_names
from backsight.source.body import SCOPES, blocks, callee, calls_in, dotted, functions, last_name, statements
from backsight.source.changes import changed_memory
from backsight.source.edits import wrap
from backsight.story.cuts import CutOff, unrecorded
from backsight.story.memory import is_leaf, is_tensor, needs_gradient
from backsight.story.sections import Section, followed
from backsight.text import lines_at


def other_calls(suspect: CutOff, name: str, expression: str) -> str:
    """What to do with the other calls of a decorated function, which would require grad then: a target has to stay
    without, and what only evaluates is cheaper without; empty where there is nothing to do."""
    trained = suspect.called
    calls = [] if trained is None or name in _OF_MANY else list(_calls_of(trained.file, name))
    others = [(body, each) for body, each in calls if trained and each.lineno != trained.line]
    if trained is None or not others or len(others) > _MOST_CALLS:
        return ""
    targets = [(body, each) for body, each in others if _is_target(body, each, trained)]
    evaluating = [each for body, each in others if not _leads_to_loss(body, each)]
    kept = [*(each for _, each in targets), *evaluating]
    under = f"with {expression if '(' in expression else 'torch.no_grad()'}"
    if kept:
        around = [(body.place(each), body.text(each)) for body, each in others if each in kept]
        lines = [f"line {at.line}, `{text}`{wrap(at, f'{under}:')}" for at, text in around]
        many = f"the calls whose results are {'targets or ' if targets else ''}only looked at"
        one = "the call whose result is a target" if targets else "the call whose result is only looked at"
        return f", and put `{under}:` around {one if len(lines) == 1 else many}: {', and '.join(lines)}"
    return ""


_MOST_CALLS = 4
_OF_MANY = frozenset({"step", "zero_grad", "forward", "update", "sample", "apply"})
"""Names that the methods of other objects have as well."""


def _calls_of(file: str, name: str) -> Iterator[tuple[Body, ast.stmt]]:
    """The statements of a file that call a function by this name outside of a block without gradients."""
    for body in functions(file):
        for spot in spots(body.node):
            called = any(callee(call)[1] == name for call in calls_in(spot.node))
            if called and not any(_records_nothing(arm) for arm, _ in spot.arms) and not _is_decorated(body):
                yield body, spot.node


def _records_nothing(block: ast.stmt) -> bool:
    return isinstance(block, ast.With) and any(callee(call)[1] in _OFF for call in calls_in(block))


def _is_decorated(body: Body) -> bool:
    marks = getattr(body.node, "decorator_list", [])
    return any(last_name(each.func if isinstance(each, ast.Call) else each) in _OFF for each in marks)


_OFF = ("no_grad", "inference_mode")


def _is_target(body: Body, statement: ast.stmt, trained: Place) -> bool:
    """Whether a loss takes the result of a statement as its target, and compares that of the trained call with it."""
    if not any(each.lineno == trained.line for each in statements(body.node)):
        return False
    for each in statements(body.node):
        for node in calls_in(each):
            pair = node.args[:2] if _LOSS.search(callee(node)[1]) else []
            if len(pair) == 2 and _comes_from(body, pair[1], each, statement.lineno):
                other = _comes_from(body, pair[0], each, statement.lineno)
                return not other and _comes_from(body, pair[0], each, trained.line)
    return any(_TARGET.search(name) for name in bound(statement))


_LOSS = re.compile(r"loss|criterion|crit$|mse|bce|huber", re.IGNORECASE)
_TARGET = re.compile(r"target|expected|bootstrap|next|teacher", re.IGNORECASE)


def _comes_from(body: Body, value: ast.expr, at: ast.stmt, line: int) -> bool:
    """Whether an expression is computed from what a line assigns."""
    found = ancestors(body, body.text(value), at.lineno).values()
    return any(place.line == line for each in found for place in each.bound)


def _leads_to_loss(body: Body, statement: ast.stmt) -> bool:
    """Whether a function that runs backward, or returns what it computes, may compute that from the statement."""
    names = bound(statement)
    for each in statements(body.node):
        for goal in _goals(each):
            places = (p for a in ancestors(body, goal, each.lineno).values() for p in a.bound)
            if each is statement or any(place.line == statement.lineno for place in places if names):
                return not _only_numbers(statement)
    return False


def _goals(statement: ast.stmt) -> Iterator[str]:
    """What a statement returns, or runs backward on."""
    if isinstance(statement, ast.Return) and statement.value is not None:
        yield ast.unparse(statement.value)
    for call in calls_in(statement):
        receiver, method = callee(call)
        if method == "backward" and receiver is not None:
            yield ast.unparse(receiver)


def _only_numbers(statement: ast.stmt) -> bool:
    """Whether a statement makes numbers or positions of what it computes."""
    return any(callee(call)[1] in ("int", "float", "item", "argmax", "tolist", "numpy") for call in calls_in(statement))


def of_a_caller(suspect: CutOff) -> Place | None:
    """Return the statement of a decorated function that calls what it was given, as `step(closure)` does."""
    body, level = suspect.section.body, suspect.section.level
    line = suspect.calling.line if suspect.calling is not None else level.line if level is not None else 0
    taken = {each.arg for each in body.node.args.args} if isinstance(body.node, ast.FunctionDef) else set()
    statement = statement_at(body, line)
    calls = [callee(call) for call in calls_in(statement)] if statement is not None else []
    is_given = any(receiver is None and name in taken for receiver, name in calls)
    return body.place(statement) if statement is not None and is_given else None


def leaves_changed(suspect: CutOff) -> list[Place]:
    """Return the statements that modify leaves in place and run where gradients are disabled, in the functions called
    there, too: they must stay there. What a loop goes through, `for p in params`, are leaves."""
    section, inside = suspect.section, unrecorded(suspect.section, suspect.cut)
    block = ast.Module([_alone(each) for each in inside], [])
    part = replace(section, body=Body(section.body.file, block, section.body.lines), whole=True)
    return [
        each.body.place(statement)
        for each in followed([part])
        for statement in statements(each.body.node)
        if _changes_leaf(each if each is not part else section, statement)
    ]


_OF_WEIGHTS = re.compile(r"param|weight|group", re.IGNORECASE)


def kept_without(changed: Sequence[Place]) -> str:
    """Say that statements stay without gradients, where what disables them around these goes."""
    under = "with torch.no_grad():"
    at = sorted({each.line for each in changed})
    marks = "".join(str(wrap(each, under)) for each in changed)
    return f", and put {lines_at(at)} inside `{under}`{marks}" if changed else ""


def _alone(statement: ast.stmt) -> ast.stmt:
    """A statement without the blocks in it, of which `unrecorded` has each statement that counts."""
    inner = [block[0] for _, block in blocks(statement)]
    if not inner or isinstance(statement, SCOPES):
        return statement
    alone = copy.copy(statement)
    alone.end_lineno = max(statement.lineno, inner[0].lineno - 1)
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        if hasattr(alone, field):
            setattr(alone, field, [])
    return alone


def _changes_leaf(section: Section, statement: ast.stmt) -> bool:
    loops = [each for each in statements(section.body.node) if isinstance(each, ast.For)]
    through = [each.target for each in loops if _OF_WEIGHTS.search(section.body.text(each.iter))]
    every = {name for target in through for name in target_names(target)}
    if any(callee(call)[1].startswith("_foreach_") and callee(call)[1].endswith("_") for call in calls_in(statement)):
        return True
    for name in filter(None, map(dotted, changed_memory(statement))):
        value = section.value(name)
        if (value is None and name in every) or (is_tensor(value) and is_leaf(value) and needs_gradient(value)):
            return True
    return False
