"""Which statements to run again so that a loss gets a graph of its own, once another backward has freed what both share
and a step has changed the weights."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from backsight.source import Body, Place, assignments, backward_roots, parsed, read_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import Use, reads, spots, uses
from backsight.source.body import dotted, expressions, is_stored, statements
from backsight.source.edits import put_at, sentence
from backsight.source.rewriting import rewritten
from backsight.story.carrier import Carrier
from backsight.story.case import Case
from backsight.story.failure import Level
from backsight.story.fixes import on_lines
from backsight.story.holders import below, made_in, node_of, results_in, results_of_object, structure, ways_into
from backsight.story.memory import is_tensor
from backsight.story.stepping import steps_in, trained_next
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


def detached_for(carrier: Carrier) -> str:
    """What to write where a loss reaches an old result that its own optimizer does not train: the statements that read
    the result, with `.detach()`, or one above the loop in which only they do. Empty where the step after this backward
    is not known, or trains part of it."""
    case, nodes, level, graph = carrier.case, carrier.nodes, carrier.case.failure.user, carrier.case.graph
    steps = [each for each in steps_in(level) if each.place.line > level.line] if level else []
    trained = trained_next(level) if level else None
    behind = set(below(graph, nodes))
    needed = {id(leaf.tensor()): leaf.node in behind for leaf in graph.leaves}
    old = {each for each, is_old in needed.items() if is_old}
    if level is None or level.body is None or not trained or not old or old & trained or not trained & set(needed):
        return ""
    for name in case.ancestors(level):
        made = made_in(graph, level.value(name)) if is_tensor(level.value(name)) else []
        edits = {}
        if case.receiver and set(made) & set(nodes):
            edits = each_detached(level.body, case.receiver, level.line, name)
        bound_at = [place.line for place in assignments(level.body, name, before=level.line)]
        edits = {line: new for line, new in edits.items() if line > max(bound_at, default=0)}
        if edits and not ways_into(graph, behind, made):
            cut, facts = f"{name} = {name}.detach()", carrier.facts if carrier.level is level else None
            after = [each for each in statements(level.body.node) if facts and each.lineno > facts.loop.line]
            alone = len(edits) > 1 and edits.keys() == {each.lineno for each in after if reads(each, name)}
            once = facts and alone and name.isidentifier() and name in facts.outside
            how = put_at(cut, "above", facts.loop) if facts and once else on_lines(edits, level.body.file)
            return (
                f"{sentence(how)}: {steps[0].call} trains nothing that {name} is computed "
                "from, so this backward need not go there."
            )
    return ""


def trained_beside(case: Case, nodes: Sequence[int]) -> tuple[set[int], str]:
    """What optimizers hold behind old results, where other losses of the function train all of it, each by itself; and
    what runs backward on these."""
    level, graph, behind = case.failure.user, case.graph, set(below(case.graph, nodes))
    owned = {leaf.node: id(leaf.tensor()) for leaf in graph.leaves if leaf.owner and leaf.node in behind}
    old = {its for index, its in enumerate(graph.identities) if index in nodes}
    left, losses = {*owned.values()}, list[str]()
    for name, _ in backward_roots(level.body) if level else ():
        value = level.value(name) if level else None
        if name == case.receiver or not is_tensor(value) or not results_in(value):
            continue
        other = structure(value)
        without = [index for index, its in enumerate(other.identities) if its in old]
        reached = set(below(other, [root for root, _ in other.root_edges], without=without))
        trains = {id(leaf.tensor()) for leaf in other.leaves if leaf.node in reached}
        losses += [name] if trains & left else []
        left -= trains
    return ({*owned}, f"{losses[-1]}.backward()") if owned and losses and not left else (set(), "")


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
