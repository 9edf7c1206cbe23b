"""Results that a list keeps with their graphs: what computed them, what put them there, and the list without graphs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple, cast

import torch

from backsight.diagnosis.wording import shown, sure_if
from backsight.findings.evidence import Fact
from backsight.snapshot import survey
from backsight.source import Place, assignments, backward_roots, edits, only, statement_at
from backsight.source.body import callee, calls_in, dotted, expressions, statements
from backsight.source.rewriting import rewritten, simple
from backsight.story.failure import Level
from backsight.story.memory import is_tensor, maker_of, needs_gradient
from backsight.story.sections import methods_of
from backsight.text import as_code
from backsight.tracing import current


def origins(level: Level, name: str, held: list[torch.Tensor]) -> Iterator[Fact]:
    """Where the results in a list were computed, if a watch has seen it, and what put them into the list."""
    every, computed = assignments(level.body, name, level.line), ""
    watch, result = current(), next(each for each in held if needs_gradient(each))
    if watch is not None and maker_of(result) is not None:
        line = watch.line_of(survey((result,), frames=(level.frame,)).graph.roots[0])
        if line is not None and line.text:
            computed = str(line.place)
            yield shown(line.place, "computes one of them, with its graph.")
    if (kept := appended(level, name)) is not None and not every:
        yield shown(kept.place, f"keeps them in {as_code(kept.name)}.")
    for place in (each for each in every[-1:] if str(each) != computed):
        yield shown(place, f"keeps them in {as_code(name)}.", sure_if(len(every) == 1))


class Appended(NamedTuple):
    """The statement that puts the results into a list, as it calls that, and the same with each detached; `stepped` if
    the program runs backward on each by itself, which frees its graph: no loss can be computed from the list."""

    name: str
    place: Place
    detached: str
    stepped: bool


def appended(level: Level, name: str) -> Appended | None:
    """The only statement that appends to a list of the function, or of the object whose method it is; of an element of
    such a list, `losses[k]`, to the list that was appended there."""
    if name.endswith("]"):
        outer = appended(level, name.partition("[")[0])
        inner = dotted(_given(level, outer.place)) if outer is not None else None
        return appended(level, inner) if inner else None
    owner = name.rpartition(".")[0]
    bodies = [*methods_of(type(level.value(owner)))] if owner == "self" else [level.body] if not owner else []
    found = only(
        (body, each, call.args[0])
        for body in bodies
        if body is not None
        for each in statements(body.node)
        for call in calls_in(each)
        if callee(call)[1] == "append" and dotted(callee(call)[0]) == name and len(call.args) == 1
    )
    if found is None:
        return None
    body, statement, value = found
    new = (
        rewritten(body, statement, {value: f"{simple(body.text(value))}.detach()"})
        if not _is_mixed(level, name)
        else ""
    )
    runs = [place for root, place in backward_roots(body) if root == body.text(value)]
    stepped = bool(runs) and not any("retain_graph" in place.text for place in runs)
    return Appended(name, body.place(statement), new, stepped)


def _is_mixed(level: Level, name: str) -> bool:
    """Whether a list has numbers beside its tensors, which have no `detach()`."""
    held = level.value(name)
    return type(held) in (list, tuple) and not all(map(is_tensor, cast("list[object]", held)))


def _given(level: Level, place: Place) -> ast.expr | None:
    """What a statement of the function appends to a list."""
    every = (each for each in calls_in(statement_at(level.body, *place.position)) if callee(each)[1] == "append")
    return next((each.args[0] for each in every), None)


def run_in_turn(held: list[torch.Tensor]) -> bool:
    """Whether a watch has seen a backward between the last two results of a list, and backward has freed both."""
    watch, last = current(), [each for each in held if needs_gradient(each)][-2:]
    graphs = [survey((each,)).graph for each in last]
    if watch is None or watch.level == "calls" or len(last) < 2:
        return False
    first, second = (max((node.sequence or 0 for node in each.nodes), default=0) for each in graphs)
    ran = any(first < each.mark <= second for each in watch.backwards if each is not None and each.freed)
    return ran and all(any(node.freed for node in each.nodes) for each in graphs)


def detached_parts(level: Level, name: str, held: list[torch.Tensor]) -> str:
    """What to write on the line of a statement, for the list detached in it alone: a loss may still be computed from
    the list itself."""
    moved = ".cpu()" if any(each.device.type != "cpu" for each in held) else ""
    values = f"[each.detach(){moved} for each in {name}]"
    if _is_mixed(level, name):
        value = "each.item()" if all(each.numel() == 1 for each in held) else f"each.detach(){moved}"
        values = f"[{value} if torch.is_tensor(each) else each for each in {name}]"
    body, statement = level.body, level.statement
    nodes = [node for node in expressions(statement) if body is not None and body.text(node) == name]
    line = rewritten(body, statement, dict.fromkeys(nodes, values)) if body and statement else ""
    return f"write `{line}`{edits.write(level.place, line)}" if line else f"write `{values}` in place of `{name}`"
