"""The loss is made of stored values alone: what the model has computed for it, in the same function, is not used."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.no_grad.causes import fails
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.disabled import disabled_at
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.findings.evidence import Certainty
from backsight.source import Place, backward_roots, cuts
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, spots, uses
from backsight.source.body import callee, calls_in, dotted, statements
from backsight.story.memory import is_module
from backsight.story.sections import Section, sections
from backsight.tracing import current

_HOUSEKEEPING = frozenset(name for name in dir(torch.nn.Module) if name not in ("forward", "__call__"))


def computed_beside(scene: Scene) -> Finding | None:
    """A function that has returned what leads to the loss has run the model, but did not use what that computed.

    None where something is detached, or gradients are disabled, before that function is reached or in it.
    """
    for section in sections(scene.failure):
        if any(True for goal, line in section.goals for _ in cuts(section.body, goal, line)):
            return None
        found = next(_unused(scene, section), None) if section.level is None else None
        if found is not None:
            return None if disabled_at(section.body, found[1].line) else _finding(scene, section, *found)
    return None


def _unused(scene: Scene, section: Section) -> Iterator[tuple[str, Place, Place, list[str]]]:
    """A variable that the model computes and the goals are not computed from, where, the statement that goes without
    it, and what that reads."""
    read = {k: v for goal, line in section.goals for k, v in ancestors(section.body, goal, line).items()}
    on_the_way = [each for each in spots(section.body.node) if bound(each.node) & read.keys()]
    for spot in spots(section.body.node):
        names = bound(spot.node)
        if names & read.keys() or len(names) != 1 or not any(_runs(scene, section, c) for c in calls_in(spot.node)):
            continue
        name = names.pop()
        if _is_trained_on(section, name):
            continue
        after = next((each for each in on_the_way if each.order > spot.order), None)
        if after is not None and name.isidentifier():
            given = sorted({use.name for use in uses(after.node) if not use.binds and section.value(use.name) is None})
            yield name, section.body.place(spot.node), section.body.place(after.node), given


def _is_trained_on(section: Section, name: str) -> bool:
    """Whether another loss is computed from a name: a part of what the function returns, or what it backpropagates."""
    roots = backward_roots(section.body)
    if any(name in ancestors(section.body, root, place.line) for root, place in roots):
        return True
    for each in statements(section.body.node):
        value = each.value if isinstance(each, ast.Return) else None
        for part in getattr(value, "elts", [value]) if value is not None else ():
            text, line = section.body.text(part), part.lineno
            if name in ancestors(section.body, text, line) and not cuts(section.body, text, line):
                return True
    return False


def _runs(scene: Scene, section: Section, call: ast.Call) -> bool:
    """Whether a call runs a model that is trained, or a method of it that computes something."""
    receiver, name = callee(call)
    models = [value for each in (call.func, receiver) if is_module(value := section.value(dotted(each) or ""))]
    return name not in _HOUSEKEEPING and any(scene.trained.carries(each) for each in models)


def _finding(scene: Scene, section: Section, name: str, made: Place, without: Place, given: list[str]) -> Finding:
    held = [each for each in given if each in section.own]
    watch = current()
    node = section.body.node
    own = range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", None) or 0) + 1)
    cut_elsewhere = all(
        each.cut.place.file != section.body.file or each.cut.place.line not in own for each in scene.seen
    )
    exact = watch is not None and watch.level == "exact" and cut_elsewhere
    certainty: Certainty | None = None if exact else "read"
    return explanation(
        scene.title(f"{getattr(node, 'name', 'the function')}() computes {name} with the model, but does not use it"),
        (
            shown(made, f"computes {name}, which requires grad.", certainty),
            shown(without, f"goes on without {name}{f': it reads {listed(held, 3)}' if held else ''}.", certainty),
            *fails(scene),
        ),
        f"Use {name} on line {without.line}: it alone depends on what is trained.",
        source=str(without),
        exact=exact,
    )
