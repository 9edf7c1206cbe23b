"""Which functions of the program an iteration runs, in which order, and which have only run before the loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from backsight.source import Body, Place, loop_facts, statement_at
from backsight.source.body import calls_in, statements
from backsight.story.failure import Failure, Level
from backsight.story.sections import Section, followed, function_called, run_by, section_of


def run_in_turn(failure: Failure) -> frozenset[ast.AST]:
    """Return the functions that run again in each iteration, as far as names lead to them."""
    found = frozenset(section.body.node for section in followed([*_sections(failure)]))
    return found | {level.body.node for level in failure.users if level.body and _loop(level) is None}


def run_before(failure: Failure) -> frozenset[ast.AST]:
    """Return the functions that run only before the outermost loop around the failing line."""
    queue = []
    for level in failure.users:
        loop, section = _loop(level), section_of(level)
        if loop is not None and section is not None:
            block = [each for each in section.body.node.body if (each.end_lineno or each.lineno) < loop.lineno]
            queue.append(_part(section, block))
    before = frozenset(section.body.node for section in followed(queue))
    return before - run_in_turn(failure)


def runs_first(failure: Failure, one: tuple[ast.AST, Place], other: tuple[ast.AST, Place]) -> bool:
    """Whether a pass comes to one statement before it comes to another; each is given with its function."""
    for section in _sections(failure):
        order = _order(section, one, other)
        if order is not None:
            return order
    return False


def _sections(failure: Failure) -> Iterator[Section]:
    """What an iteration runs of each running function: the outermost loop, or all of it where there is none."""
    for level in failure.users:
        loop, section = _loop(level), section_of(level)
        if section is not None:
            yield _part(section, [loop]) if loop is not None else replace(section, whole=True)


def _part(section: Section, block: Sequence[ast.stmt]) -> Section:
    body = Body(section.body.file, ast.Module([*block], []), section.body.lines)
    return replace(section, body=body, whole=True)


def _loop(level: Level) -> ast.stmt | None:
    facts = loop_facts(level.body, level.line)
    while facts is not None and facts.enclosing is not None:
        facts = facts.enclosing
    return statement_at(level.body, *facts.loop.position) if facts is not None else None


def _order(section: Section, one: tuple[ast.AST, Place], other: tuple[ast.AST, Place], depth: int = 4) -> bool | None:
    """Whether the first of two statements is come to first; None where a function does not come to both."""
    first, second = (_reached(section, *each) for each in (one, other))
    if first is None or second is None:
        return None
    (at, into), (then, _) = first, second
    if at != then or not depth:
        return at < then
    orders = (_order(each, one, other, depth - 1) for each in into)
    return next((order for order in orders if order is not None), False)


def _reached(section: Section, function: ast.AST, place: Place) -> tuple[int, list[Section]] | None:
    """The first statement of a function that comes to a statement, by its number, and the functions that do for it."""
    for index, statement in enumerate(statements(section.body.node)):
        here = (statement.lineno, statement.col_offset) == place.position and section.body.file == place.file
        into = [each for each in _called(section, statement) if any(inner.body.node is function for inner in each)]
        if here or into:
            return index, [each[0] for each in into]
    return None


def _called(section: Section, statement: ast.stmt) -> Iterator[list[Section]]:
    """For each call in a statement the function that it runs, and those that this may run."""
    for call in calls_in(statement):
        function, owner = function_called(section, call)
        found = [*run_by(function, owner)] if function is not None else []
        if found:
            yield found
