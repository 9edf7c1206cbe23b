"""The loss is made of constants alone: what the model has computed for it is not used, or what adds to it never ran."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.no_grad.causes import fails
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, if_known, listed, shown, sure_if
from backsight.source import Place, backward_roots, cuts
from backsight.source.ancestry import ancestors
from backsight.source.bindings import Spot, bound, reads, spots, uses
from backsight.source.body import callee, calls_in, dotted, statements
from backsight.source.choices import Choice
from backsight.story.memory import is_module
from backsight.story.modes import disabled_at
from backsight.story.sections import Section, sections
from backsight.story.unmatched import Unmatched, unmatched
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
    """What the model computes and the goals do not use, where, which statement goes without it, and what it reads."""
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
    held, node = [each for each in given if each in section.own], section.body.node
    own = range(getattr(node, "lineno", 0), (getattr(node, "end_lineno", None) or 0) + 1)
    places = [each.cut.place for each in scene.seen]
    is_elsewhere = all(place.file != section.body.file or place.line not in own for place in places)
    exact = _is_exact() and is_elsewhere
    return explanation(
        scene.title(f"{getattr(node, 'name', 'the function')}() computes {name} with the model, but does not use it"),
        (
            shown(made, f"computes {name}, which requires grad.", sure_if(exact)),
            shown(without, f"goes on without {name}{f': it reads {listed(held, 3)}' if held else ''}.", sure_if(exact)),
            *fails(scene),
        ),
        f"Use {name} on line {without.line}: it alone depends on what is trained.",
        source=without,
        exact=exact,
    )


def _is_exact() -> bool:
    """Whether a watch runs that sees all."""
    watch = current()
    return watch is not None and watch.level == "exact"


_ZERO = frozenset({"zeros", "zeros_like", "new_zeros"})


def never_added(scene: Scene) -> Finding | None:
    """A sum over what may be nothing: `loss = torch.zeros(())`, and additions under a condition."""
    if scene.root is None or scene.root.numel() != 1 or not is_zero(scene.root):
        return None
    missed = next(unmatched(scene.failure, _replaces_zero), None)
    if missed is not None:
        return _not_chosen(scene, missed)
    for section in sections(scene.failure):
        for goal in dict.fromkeys(goal for goal, _ in section.goals):
            found = _sum_of_nothing(section, goal)
            if found is not None:
                return _finding_of_constant(scene, goal, *found)
    return None


def _replaces_zero(section: Section, choice: Choice) -> bool:
    """Whether the branches give a value to what is returned, which otherwise stays zero."""
    names = {goal for goal, _ in section.goals} & {name for each in choice.inside for name in bound(each)}
    first = (next(each for each in spots(section.body.node) if name in bound(each.node)) for name in names)
    return any(_is_zero(each.node) and not each.branches for each in first)


def _not_chosen(scene: Scene, missed: Unmatched) -> Finding:
    return explanation(
        scene.title("it is still its initial constant, because no branch computed it"),
        (
            shown(missed.choice.place, missed.does),
            *failing(scene.failure, "has nothing to backpropagate through."),
        ),
        missed.fix,
        source=missed.written or missed.choice.place,
    )


def _sum_of_nothing(section: Section, name: str) -> tuple[Place, Spot, Section] | None:
    """Where a name begins as zero, and the first of the statements that add to it, all of which may be skipped."""
    binding = [each for each in spots(section.body.node) if name in bound(each.node)]
    if len(binding) < 2 or not _is_zero(binding[0].node) or binding[0].branches:
        return None
    adding = binding[1:]
    if all(each.branches and reads(each.node, name) for each in adding):
        return section.body.place(binding[0].node), adding[0], section
    return None


def _is_zero(statement: ast.stmt) -> bool:
    match getattr(statement, "value", None):
        case ast.Constant(value=value):
            return value in (0, 0.0)
        case ast.Call(args=args) as call:
            name, first = callee(call)[1], args[0] if args else None
            filled = name in ("tensor", "Tensor") and isinstance(first, ast.Constant) and first.value in (0, 0.0)
            return name in _ZERO or filled
    return False


def _finding_of_constant(scene: Scene, name: str, start: Place, adding: Spot, section: Section) -> Finding:
    exact, add = _is_exact(), section.body.place(adding.node)
    around = [section.body.place(each) for each, _ in adding.branches if isinstance(each, ast.If)]
    condition = around[-1] if around else None
    where = f"the condition on line {condition.line}" if condition else f"what leads to line {add.line}"
    return explanation(
        scene.title("it is still its initial constant; nothing was ever added to it"),
        (
            shown(start, f"initializes {name} as a constant."),
            if_known(condition, "was never true.", sure_if(exact)),
            shown(add, "would add to it, but never ran.", sure_if(exact)),
            *failing(scene.failure, "has nothing to backpropagate through."),
            None if exact else f"{name} is still 0.",
        ),
        f"Check {where}: it was never true. If that can happen in a healthy run, skip such a step: "
        f"`if {scene.loss}.requires_grad: {scene.loss}.backward()`.",
        source=start,
        exact=exact,
    )
