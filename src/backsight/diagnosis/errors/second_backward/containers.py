"""Containers that keep results from step to step: what fills them, what empties them, and what to put in instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.diagnosis.evidence.case import Case
from backsight.diagnosis.evidence.spoken import simple
from backsight.source import Body, Place, assignments, parsed, read_at, statement_at
from backsight.source.body import callee, dotted, expressions, statements
from backsight.source.keeping import Keeping, is_cached, keepings
from backsight.story.failure import Level
from backsight.story.fixes import every_time
from backsight.story.sections import methods_of


def filled(case: Case, container: str) -> Keeping | None:
    """The statement that puts things into a container, in a function that runs or a method of its owner's class."""
    bodies = (pair for level in case.failure.users for pair in _bodies(level, container))
    found = [each for body, name in bodies for each in keepings(body, name)]
    return next((each for each in found if not each.cached), next(iter(found), None))  # the first of all may be zeros


def cached(case: Case, attribute: str) -> Keeping | None:
    """The statement that computes an attribute where there is none yet, if no other but `__init__` gives it a value."""
    found = [
        Keeping(place, name, _value(body, place), cached=is_cached(body, name, place))
        for level in case.failure.users
        for body, name in _bodies(level, attribute)
        for place in assignments(body, name)
        if body.name != "__init__"
    ]
    return found[0] if found and all(each.cached for each in found) else None


def _value(body: Body, place: Place) -> str:
    statement = statement_at(body, *place.position)
    return body.text(statement.value) if isinstance(statement, ast.Assign) else ""


def emptied(case: Case, container: str) -> bool:
    """Whether a function that runs, or a method of its owner's class but `__init__`, assigns or clears a container."""
    return any(
        assignments(body, name) or any(callee(node)[1] == "clear" for node in _calls_on(body, name))
        for level in case.failure.users
        for body, name in _bodies(level, container)
        if body.name != "__init__"
    )


def _calls_on(body: Body, name: str) -> Iterator[ast.Call]:
    nodes = (node for each in statements(body.node) for node in expressions(each))
    for node in nodes:
        if isinstance(node, ast.Call) and (dotted(node.func) or "").startswith(f"{name}."):
            yield node


def kept_detached(container: str, keeping: Keeping, *, emptied: bool = False) -> str:
    """What to do about results that a container keeps."""
    if keeping.cached:
        body, statement = read_at(keeping.place)
        every = every_time(body, statement, keeping.name) if body and statement else ""
        if every:
            return (
                f"Recompute {keeping.value or 'it'} in each step, because the parameters it depends on are trained: "
                f"{every}. If they should not be, compute it under torch.no_grad()."
            )
        return (
            f"Recompute {keeping.value or 'it'} in each step instead of storing it: the parameters it depends on are "
            "trained. If they should not be, compute it under torch.no_grad()."
        )
    cut = _detached(keeping.value) if keeping.value else ""
    written = keeping.with_value(cut) if cut else ""
    if keeping.replaces or emptied:
        return f"Put results into {container} detached: {written or 'x.detach(), not x'}."
    return (
        f"If {container} should hold the results of one step only, empty it after each step. If it should keep older "
        f"ones, put them into it detached: {written or 'append x.detach(), not x'}."
    )


def _detached(value: str) -> str:
    """An expression without its history, of a tuple each of its elements; empty where it cannot be written."""
    node = parsed(value)
    if isinstance(node, ast.Tuple):
        return f"({', '.join(_detached(ast.unparse(each)) for each in node.elts)})"
    return f"{simple(value)}.detach()" if node is not None else ""


def _bodies(level: Level, container: str) -> Iterator[tuple[Body, str]]:
    if level.body is not None:
        yield level.body, container
    owner, _, attribute = container.rpartition(".")
    held = level.value(owner) if owner else None
    if held is not None:
        yield from ((body, f"self.{attribute}") for body in methods_of(type(held)))
