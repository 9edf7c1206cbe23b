"""What a loop carries from one iteration into the next, and what it takes from before it began."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from backsight.source.bindings import Spot, bound, names_read, prefixes, spots, uses
from backsight.source.body import LOOPS, SCOPES, Body, Loop, Place

_TRIES: tuple[type[ast.Try], ...] = (ast.Try, getattr(ast, "TryStar", ast.Try))  # `except*` came with Python 3.11
# These bind names, but never a tensor.
_DEFINITIONS = (*SCOPES, ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class LoopFacts:
    """The names that a loop moves around.

    loop: the loop's header.
    assigned: names that an iteration binds, the loop's own targets included.
    carried: names read in an iteration before it is sure to have bound them, and bound somewhere in it, so that the
        value may come from the iteration before: name -> (the read, the last assignment).
    outside: names read in the loop and bound only before it: name -> the last assignment.
    enclosing: the same facts of the loop around this one.
    """

    loop: Place
    assigned: frozenset[str]
    carried: Mapping[str, tuple[Place, Place]]
    outside: Mapping[str, Place]
    enclosing: LoopFacts | None


def loop_facts(body: Body | None, line: int) -> LoopFacts | None:
    """The facts of the innermost loop around `line` (each of them leads to the loop around it), None outside of loops.

    >>> loop_facts(body, 41).carried["hidden"]      # out, hidden = rnn(x, hidden)
    (Place('train.py', 39, ...), Place('train.py', 39, ...))
    """
    if body is None:
        return None
    every = spots(body.node)
    facts: LoopFacts | None = None
    for spot in every:
        node = spot.node
        if isinstance(node, LOOPS) and node.lineno <= line <= (node.body[-1].end_lineno or 0):
            facts = _facts(body, every, spot, node, facts)
    return facts


def _facts(body: Body, every: list[Spot], spot: Spot, loop: Loop, enclosing: LoopFacts | None) -> LoopFacts:
    inside = [each.node for each in every if (loop, "body") in each.arms]
    iteration = [loop, *inside]
    last = {name: statement for statement in iteration for name in bound(statement)}
    exposed = _exposed_reads(loop)
    reading = iteration if isinstance(loop, ast.While) else inside  # what `for` iterates over is read before the loop
    read = names_read(*reading)
    before = {
        name: each.node
        for each in every
        if each.order < spot.order and not isinstance(each.node, _DEFINITIONS)
        for name in bound(each.node)
    }
    return LoopFacts(
        loop=body.place(loop),
        assigned=frozenset(last),
        carried={
            name: (body.place(statement), body.place(last[name])) for name, statement in exposed.items() if name in last
        },
        outside={
            name: body.place(statement)
            for name, statement in before.items()
            if name in read and not any(prefix in last for prefix in prefixes(name))
        },
        enclosing=enclosing,
    )


def _exposed_reads(loop: Loop) -> dict[str, ast.stmt]:
    """Names that one iteration reads while it is not sure to have bound them, each with the first such statement."""
    exposed: dict[str, ast.stmt] = {}
    nothing: frozenset[str] = frozenset()
    start = _header(loop, nothing, exposed) if isinstance(loop, ast.While) else frozenset(bound(loop))
    _flow(loop.body, start, exposed)
    return exposed


def _flow(block: list[ast.stmt], sure: frozenset[str], exposed: dict[str, ast.stmt]) -> frozenset[str] | None:
    """Walks `block` knowing that the names in `sure` are bound: those sure to be bound after it, None if it never ends.

    Reads of other names are added to `exposed`. The recursion is as deep as the user's indentation, which Python
    limits to a hundred; `elif` chains, which have no limit, are walked in a loop.
    """
    after: frozenset[str] | None = sure
    for statement in block:
        if after is None:
            break
        inner = _header(statement, after, exposed)
        match statement:
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                after = None
            case ast.If():
                after = _flow_if(statement, inner, exposed)
            case ast.For() | ast.While():
                after = _flow_loop(statement, inner, exposed)
            case ast.With():
                after = _flow(statement.body, inner, exposed)
            case ast.Match():
                after = _flow_match(statement, inner, exposed)
            case _ if isinstance(statement, _TRIES):
                after = _flow_try(statement, inner, exposed)
            case _:
                after = inner
    return after


def _flow_if(statement: ast.If, sure: frozenset[str], exposed: dict[str, ast.stmt]) -> frozenset[str] | None:
    outcomes = [_flow(statement.body, sure, exposed)]
    while len(statement.orelse) == 1 and isinstance(statement.orelse[0], ast.If):
        statement = statement.orelse[0]
        sure = _header(statement, sure, exposed)
        outcomes.append(_flow(statement.body, sure, exposed))
    outcomes.append(_flow(statement.orelse, sure, exposed))
    return _meet(outcomes)


def _flow_loop(statement: Loop, sure: frozenset[str], exposed: dict[str, ast.stmt]) -> frozenset[str] | None:
    # An inner loop is taken to run once to its end: a loader that yields nothing is not what training code is about.
    after = _flow(statement.body, sure, exposed)
    return _flow(statement.orelse, sure if after is None else after, exposed)


def _flow_match(statement: ast.Match, sure: frozenset[str], exposed: dict[str, ast.stmt]) -> frozenset[str] | None:
    outcomes = [_flow(case.body, sure, exposed) for case in statement.cases]
    last = statement.cases[-1]
    if last.guard or not isinstance(last.pattern, ast.MatchAs) or last.pattern.pattern:
        outcomes.append(sure)  # no case need match
    return _meet(outcomes)


def _flow_try(statement: ast.Try, sure: frozenset[str], exposed: dict[str, ast.stmt]) -> frozenset[str] | None:
    outcomes = [_flow([*statement.body, *statement.orelse], sure, exposed)]
    # A handler may be reached before the body has bound anything.
    outcomes += [_flow(handler.body, sure, exposed) for handler in statement.handlers]
    after = _meet(outcomes)
    final = _flow(statement.finalbody, sure if after is None else after, exposed)
    return None if after is None else final


def _header(statement: ast.stmt, sure: frozenset[str], exposed: dict[str, ast.stmt]) -> frozenset[str]:
    """Takes the statement's own reads and bindings, in the order of evaluation."""
    for use in uses(statement):
        if use.binds:
            sure |= {use.name}
        elif not any(prefix in sure for prefix in prefixes(use.name)):
            exposed.setdefault(use.name, statement)
    return sure


def _meet(outcomes: list[frozenset[str] | None]) -> frozenset[str] | None:
    reached = [each for each in outcomes if each is not None]
    return frozenset.intersection(*reached) if reached else None
