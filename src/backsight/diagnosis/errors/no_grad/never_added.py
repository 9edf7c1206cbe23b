"""The loss is still the constant that it began as: the statements that add to it never ran."""

from __future__ import annotations

import ast

from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.findings.evidence import Certainty, Fact
from backsight.source import Place
from backsight.source.bindings import Spot, bound, spots, uses
from backsight.source.body import callee
from backsight.source.choices import Choice
from backsight.story.sections import Section, sections
from backsight.story.unmatched import Unmatched, unmatched
from backsight.tracing import current

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
                return _finding(scene, goal, *found)
    return None


def _replaces_zero(section: Section, choice: Choice) -> bool:
    """Whether the branches give a value to what is returned, which otherwise stays zero."""
    names = {goal for goal, _ in section.goals} & {name for each in choice.inside for name in bound(each)}
    first = (next(each for each in spots(section.body.node) if name in bound(each.node)) for name in names)
    return any(_is_zero(each.node) and not each.branches for each in first)


def _not_chosen(scene: Scene, missed: Unmatched) -> Finding:
    lines = [shown(missed.choice.place, missed.does)]
    lines += failing(scene.failure, "has nothing to backpropagate through.")
    return explanation(
        scene.title("it is still its initial constant, because no branch computed it"),
        tuple(lines),
        missed.fix,
        source=str(missed.written or missed.choice.place),
    )


def _sum_of_nothing(section: Section, name: str) -> tuple[Place, Spot, Section] | None:
    """Where a name begins as zero, and the first of the statements that add to it, all of which may be skipped."""
    binding = [each for each in spots(section.body.node) if name in bound(each.node)]
    if len(binding) < 2 or not _is_zero(binding[0].node) or binding[0].branches:
        return None
    adding = binding[1:]
    if all(each.branches and any(use.name == name and not use.binds for use in uses(each.node)) for each in adding):
        return section.body.place(binding[0].node), adding[0], section
    return None


def _is_zero(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Constant):
        return value.value in (0, 0.0)
    if not isinstance(value, ast.Call):
        return False
    first = value.args[0] if value.args else None
    name = callee(value)[1]
    return name in _ZERO or (
        name in ("tensor", "Tensor") and isinstance(first, ast.Constant) and first.value in (0, 0.0)
    )


def _finding(scene: Scene, name: str, start: Place, adding: Spot, section: Section) -> Finding:
    watch = current()
    exact = watch is not None and watch.level == "exact"
    certainty: Certainty | None = None if exact else "read"
    around = [section.body.place(each) for each, _ in adding.branches if isinstance(each, ast.If)]
    condition = around[-1] if around else None
    add = section.body.place(adding.node)
    lines: list[Fact] = [
        shown(start, f"initializes {name} as a constant."),
        shown(add, "would add to it, but never ran.", certainty),
    ]
    if condition is not None:
        lines.insert(1, shown(condition, "was never true.", certainty))
    lines += failing(scene.failure, "has nothing to backpropagate through.")
    if not exact:
        lines.append(f"{name} is still 0.")
    where = f"the condition on line {condition.line}" if condition else f"what leads to line {add.line}"
    return explanation(
        scene.title("it is still its initial constant; nothing was ever added to it"),
        tuple(lines),
        f"Check {where}: it was never true. If that can happen in a healthy run, skip such a step: "
        f"`if {scene.loss}.requires_grad: {scene.loss}.backward()`.",
        source=str(start),
        exact=exact,
    )
