"""Containers that keep results from step to step: what fills them, what empties them, and what to put in instead."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from backsight.diagnosis.evidence.case import Case
from backsight.diagnosis.evidence.holders import below, identified, results_held
from backsight.diagnosis.evidence.spoken import simple
from backsight.diagnosis.wording import listed
from backsight.source import Body, Place, assignments, parsed, read_at, statement_at
from backsight.source.body import callee, dotted, expressions, statements
from backsight.source.keeping import Keeping, is_cached, keepings
from backsight.story.failure import Level
from backsight.story.fixes import every_time
from backsight.story.sections import methods_of
from backsight.story.stepping import optimizer_steps


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


def kept_detached(
    container: str, keeping: Keeping, case: Case | None = None, nodes: Sequence[int] = (), *, emptied: bool = False
) -> str:
    """What to do about results that a container keeps; of one that is computed only once, `nodes` are what made it."""
    if keeping.cached:
        return _cached_detached(keeping, _owners(case, nodes) if case is not None else None)
    cut = _detached(keeping.value) if keeping.value else ""
    written = keeping.with_value(cut) if cut else ""
    how = f"on line {keeping.place.line}, write `{written}`" if written else "x.detach(), not x"
    if keeping.replaces or emptied:
        return f"Put results into {container} detached: {how}."
    clear = _clearing(case.failure.user, container) if case is not None else ""
    if case is not None and _trains_all(case, container):
        return (
            f"Let {container} hold the results of one step only, and empty it after each step{clear}. "
            f"{case.loss.capitalize() if case.loss == 'the loss' else case.loss} trains through them alone: detached, "
            "they would train nothing."
        )
    return (
        f"If {container} should hold the results of one step only, empty it after each step{clear}. If it should keep "
        f"older ones, put them into it detached: {how}."
    )


def _clearing(level: Level | None, container: str) -> str:
    """Where a container is emptied: below the step that follows the failing backward."""
    value = level.value(container) if level is not None else None
    if level is None or type(value) not in _CONTAINERS or any(type(each) in _CONTAINERS for each in _values(value)):
        return ""
    after = next((each for each in optimizer_steps(level) if each.line >= level.line), level.place)
    return f": put `{container}.clear()` below line {after.line}"


_CONTAINERS = (list, dict, set, deque)


def _values(container: object) -> list[object]:
    return [*(container.values() if isinstance(container, dict) else container)]  # type: ignore[misc]


def _trains_all(case: Case, container: str) -> bool:
    """Whether what optimizers hold is reached through the results in a container alone."""
    graph, held = case.graph, results_held(case.failure.frames)
    of = {its: index for index, its in enumerate(graph.identities)}
    kept = [of.get(identified(each) or (-1, -1)) for each, name in held if name.path.startswith(f"{container}[")]
    beside = below(graph, [root for root, _ in graph.root_edges], without=[each for each in kept if each is not None])
    owned = {leaf.node for leaf in graph.leaves if leaf.owner}
    return bool(owned) and not owned & set(beside)


class _Owners(NamedTuple):
    """The optimizers that hold what a loss reaches: through a result, and elsewhere."""

    through: frozenset[str]
    beside: frozenset[str]


def _owners(case: Case, nodes: Sequence[int]) -> _Owners:
    behind = set(below(case.graph, nodes))
    owned = [leaf for leaf in case.graph.leaves if leaf.owner]
    through = frozenset(str(leaf.owner) for leaf in owned if leaf.node in behind)
    return _Owners(through, frozenset(str(leaf.owner) for leaf in owned if leaf.node not in behind))


def _cached_detached(keeping: Keeping, owners: _Owners | None) -> str:
    """What to do about a result that is computed once and kept: again in each step only where it may be trained."""
    value = keeping.value or "it"
    if owners is not None and not owners.through and owners.beside:
        cut = keeping.with_value(_detached(keeping.value)) if keeping.value else ""
        how = f"On line {keeping.place.line}, write `{cut}`" if cut else "Compute it under torch.no_grad()"
        return f"{how}: {listed(sorted(owners.beside))} trains nothing that {value} is computed from."
    body, statement = read_at(keeping.place)
    every = every_time(body, statement, keeping.name) if body and statement else ""
    how = f": {every}" if every else " instead of storing it"
    if owners is None or not owners.through:
        return (
            f"If the parameters that {value} depends on are trained, recompute it in each step{how}. If they should "
            "not be, compute it under torch.no_grad()."
        )
    if every:
        why = "because the parameters it depends on are trained"
        return f"Recompute {value} in each step, {why}{how}. If they should not be, compute it under torch.no_grad()."
    return (
        f"Recompute {value} in each step{how}: the parameters it depends on are trained. If they should not be, "
        "compute it under torch.no_grad()."
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
