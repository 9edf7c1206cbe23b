"""A state that is carried with its graph, although a statement detaches it: into a copy that nothing uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.second_backward.carried import steps_seen, why_not_retain
from backsight.diagnosis.evidence.case import Case
from backsight.diagnosis.evidence.holders import results_in
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown, unwatched
from backsight.findings.evidence import Certainty
from backsight.naming.plain import class_dict, namespace
from backsight.naming.roots import is_library, is_user_class
from backsight.source import Place, assignments, function_at, lets_through, loop_facts, statement_at
from backsight.source.bindings import Use, bound, uses
from backsight.source.body import LOOPS, Body, callee, dotted, statements
from backsight.story.memory import is_tensor, shape_of
from backsight.story.sections import Section, function_called, sections, undecorated


@dataclass(frozen=True, eq=False)
class Unused:
    """A call whose result is lost, the name of what it was to detach, and the statement that assigns that later."""

    place: Place
    name: str
    assigned: Place


def copy_thrown_away(case: Case) -> Finding | None:
    """`hidden.detach()` and `state.detached()` return a new object, and leave the variable as it is."""
    found = next((each for section in sections(case.failure) for each in _unused(case, section)), None)
    level = case.failure.user
    if found is None or level is None:
        return None
    seen, name = steps_seen(case), found.name
    certainty: Certainty | None = None if seen else "read"
    lines = [shown(found.place, f"returns a detached copy, which nothing uses: {name} stays as it is.")]
    if found.assigned != found.place:
        lines.append(shown(found.assigned, f"assigns {name}, with the graph that the next iteration reads.", certainty))
    return explanation(
        f"{name} carries the graph of one iteration into the next: its detached copy is thrown away.",
        (
            *lines,
            shown(level.place, "backpropagates into the graph of the previous iteration, which is already freed."),
            *(seen or unwatched()),
        ),
        f"On line {found.place.line}, write `{name} = {found.place.text}`. {why_not_retain(case)}",
        source=str(found.place),
        exact=bool(seen),
    )


def _unused(case: Case, section: Section) -> Iterator[Unused]:
    """The statements of a function that only detach what it carries over."""
    for statement in statements(section.body.node):
        call = statement.value if isinstance(statement, ast.Expr) else None
        name = _detached(section, call) if isinstance(call, ast.Call) else None
        assigned = assignments(section.body, name) if name else ()
        if name is None or not assigned or not any(_joins(case, each) for each in _results(section.value(name))):
            continue
        facts = loop_facts(section.body, statement.lineno)
        loop = statement_at(section.body, *facts.loop.position) if facts is not None else None
        outlives = name in facts.assigned if facts is not None else "." in name and section.level is None
        if outlives and _enters(loop.body if isinstance(loop, LOOPS) else section.body.node.body, statement, name):
            yield Unused(section.body.place(statement), name, assigned[-1])


def _joins(case: Case, result: Any) -> bool:
    """Whether what a result was an iteration ago may be where this graph joins an older one, by its shape."""
    shapes = [case.graph.nodes[i].shape for i in case.joints]
    return case.is_joint(result) and (not shapes or shape_of(result) in shapes)


def _enters(block: Sequence[ast.stmt], apart: ast.stmt, name: str) -> bool:
    """Whether a block reads a variable with its history before it assigns it: not in `cell(x, h.detach())`."""
    for each in block:
        if each is not apart and Use(name, False) in uses(each) and lets_through(each, name):
            return True
        if name in bound(each):
            return False
    return False


def _detached(section: Section, call: ast.Call) -> str | None:
    """The variable of which a call returns a detached copy, `state` of `state.detach()` and of `repackage(state)`."""
    receiver, method = callee(call)
    name = dotted(receiver)
    if name is not None and method == "detach" and is_tensor(section.value(name)):
        return name
    function, owner = function_called(section, call)
    function = undecorated(function)
    code = getattr(function, "__code__", None)
    body = function_at(code) if code is not None and not is_library(code.co_filename) else None
    if body is None or not _returns_detached(body):
        return None
    if name is not None and not call.args and section.value(name) is owner:
        return name
    return dotted(call.args[0]) if len(call.args) == 1 else None


def _returns_detached(body: Body) -> bool:
    """Whether a function returns what it detaches, and changes no object."""
    calls = {callee(node)[1] for node in ast.walk(body.node) if isinstance(node, ast.Call)}
    returns = any(isinstance(each, ast.Return) and each.value is not None for each in statements(body.node))
    changes = "detach_" in calls or any("." in name for each in statements(body.node) for name in bound(each))
    return returns and not changes and "detach" in calls


def _results(value: Any) -> list[object]:
    """The results in a value; of an object of the user's, those that its attributes hold."""
    if is_tensor(value) or not is_user_class(class_dict(type(value)).get("__module__")):
        return [*results_in(value)]
    parts = [*tuple.__iter__(value)] if issubclass(type(value), tuple) else [*(namespace(value) or {}).values()]
    return [each for part in parts for each in results_in(part)]
