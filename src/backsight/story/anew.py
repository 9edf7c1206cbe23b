"""Which statements to run again so that a loss gets a graph of its own, once another backward has freed what both share
and a step has changed the weights."""

from __future__ import annotations

import ast
from collections.abc import Collection

from backsight.source import Body, Place, parsed, read_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import Use, spots, uses
from backsight.source.body import dotted, expressions, is_stored, statements
from backsight.source.rewriting import rewritten
from backsight.story.case import Case
from backsight.story.failure import Level
from backsight.story.holders import below, node_of, results_of_object, ways_into
from backsight.text import listed


def run_again(case: Case, level: Level, until: Place, old: Collection[int]) -> list[Place]:
    """The statements above `until` that compute what leads the loss of a level into old operations or old weights.

    Empty where it gets there by other ways as well: through what this function has not computed itself.
    """
    graph, found, anew = case.graph, dict[int, Place](), set[int]()
    for name, each in case.ancestors(level).items():
        held = [node_of(graph, tensor) for tensor in results_of_object(level.value(name))]
        nodes = [node for node in held if node is not None]
        if set(old).isdisjoint(below(graph, nodes)):
            continue
        if not each.bound:
            return []
        anew.update(nodes)
        found |= {place.line: place for place in each.bound if place.position < until.position}
    arms = {each.node.lineno: each.arms for each in spots(level.body.node)} if level.body is not None else {}
    roots = {root for root, _ in graph.root_edges}
    if any(arms[line] != arms[until.line] for line in found) or ways_into(graph, old, anew - roots):
        return []
    return [found[line] for line in sorted(found)]


def lines_of(body: Body, places: Collection[Place]) -> str:
    """`line 12`, `lines 12 to 14`, `lines 12 and 16 to 18`: from where to where no other statement stands between."""
    spans, goes_on, wanted = list[tuple[int, int]](), False, {each.line for each in places}
    for each in statements(body.node):
        if each.lineno in wanted:
            first = spans.pop()[0] if goes_on else each.lineno
            spans.append((first, each.end_lineno or each.lineno))
        goes_on = each.lineno in wanted
    told = [str(first) if first == last else f"{first} to {last}" for first, last in spans]
    return f"line{'s' * (len(told) > 1 or ' ' in told[0])} {listed(told, len(told))}"


def each_detached(body: Body | None, expression: str, line: int, *names: str) -> dict[int, str]:
    """Every statement through which an expression is computed from any of these variables, by its line, with those
    detached; empty where one cannot be written so."""
    every = {place.line: place for each in ancestors(body, expression, line).values() for place in each.bound}
    found = {at: _detached(*read_at(place), names) for at, place in sorted(every.items())}
    edits = {at: new for at, new in found.items() if new is not None}
    itself = {Use(each, False) for each in names} & {*uses(parsed(expression))}
    return edits if all(edits.values()) and not itself else {}


def _detached(body: Body | None, statement: ast.stmt | None, names: Collection[str]) -> str | None:
    """A statement with variables detached where it reads more than their size; None where it does not, or empty."""
    every = [*expressions(statement)]
    sizes = {id(each.value) for each in every if isinstance(each, ast.Attribute) and each.attr in _SIZES}
    read = [node for node in every if dotted(node) in names and id(node) not in sizes]
    read = [node for node in read if not is_stored(node)]
    if body is None or statement is None or not read:
        return None
    value = statement.value if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign) else None
    if value is None or isinstance(value, ast.Tuple | ast.List | ast.Dict):
        return ""
    return rewritten(body, statement, {node: f"{dotted(node)}.detach()" for node in read})


_SIZES = frozenset({"size", "shape", "ndim", "dim", "dtype", "device", "numel"})
