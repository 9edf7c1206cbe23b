"""The variable holds another tensor now than when the output was computed."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.unused_input.case import Unused
from backsight.diagnosis.errors.unused_input.late import enabling
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.source import Body, Place
from backsight.source.bindings import Spot, Use, bound, spots, uses
from backsight.source.body import callee, calls_in, functions
from backsight.source.edits import lines_of, move
from backsight.story.failure import Level


def replaced(case: Unused) -> Finding | None:
    """Name the statement that has read the earlier tensor, and the one that replaced it."""
    for level in case.failure.users:
        names = [each for each, value in level.variables.items() if value is case.tensors[0]]
        body, name = level.body, names[0] if len(names) == 1 else ""
        every = [each for each in spots(body.node) if each.node.lineno < level.line] if body is not None else []
        same = {each.line for each in enabling(body, name)} if body is not None else set()
        kept = [each for each in every if name in bound(each.node) and each.node.lineno not in same]
        made = kept[-1] if kept else None
        if body is None or made is None:
            continue
        read = _read_by_output(case, level, body, every, made, name) or _read_alone(
            case, level, body, every, made, name
        )
        if read is not None:
            reads, makes = body.place(read.node), body.place(made.node)
            does = f"computes {value}" if (value := next(iter(sorted(bound(read.node))), "")) else "computes"
            return explanation(
                f"{name} is not the tensor that {case.output} was computed from.",
                (
                    shown(reads, f"{does} from the {name} of that moment."),
                    shown(makes, f"assigns a new tensor to {name}."),
                    case.asked,
                ),
                _moved(every, read, made, name, makes)
                or f"Give the new tensor another name, or create it before {case.output} is computed.",
                source=makes,
            )
    return None


def _read_by_output(
    case: Unused, level: Level, body: Body, every: Sequence[Spot], made: Spot, name: str
) -> Spot | None:
    """The statement by which the output is computed from it, as the text shows, if that stands above."""
    ancestor = case.ancestors.get(name) if level is case.failure.user else None
    if ancestor is None or body.place(made.node) in ancestor.bound:
        return None
    return next((each for each in every[: every.index(made)] if body.place(each.node) == ancestor.read), None)


def _read_alone(case: Unused, level: Level, body: Body, every: Sequence[Spot], made: Spot, name: str) -> Spot | None:
    """The first statement of the same block that computes something from the earlier tensor, where none reads the new
    one before its gradient is asked for: whatever the output is computed from, it is not this."""
    held = any(value is root for value in level.variables.values() for root in case.failure.roots)
    new = any(callee(each)[1] in _NEW for each in calls_in(made.node))
    others = (each for each in functions(body.file) if isinstance(body.node, ast.Module) and each.node is not body.node)
    inner = name in level.frame.f_code.co_cellvars or any(name in _reading(each) for each in others)
    at = every.index(made)
    if not held or not new or inner or any(Use(name, False) in uses(each.node) for each in every[at + 1 :]):
        return None
    later = {use.name for each in every[at + 1 :] for use in uses(each.node) if not use.binds}
    before = [each for each in every[:at] if each.arms == made.arms and name not in bound(each.node)]
    since = max((k for k, each in enumerate(every[:at]) if name in bound(each.node)), default=-1)
    reading = (each for each in before if every.index(each) > since and Use(name, False) in uses(each.node))
    return next((each for each in reading if bound(each.node) & later), None)


_NEW = frozenset({"clone", "detach", "tensor", "Variable"})
"""The calls that never return the tensor that they are given."""


def _reading(body: Body) -> set[str]:
    return {use.name for each in spots(body.node) for use in uses(each.node) if not use.binds}


def _moved(every: Sequence[Spot], read: Spot, made: Spot, name: str, makes: Place) -> str:
    """To create it above the statement that has read the earlier one, where nothing between gives it what it needs."""
    between = every[every.index(read) : every.index(made)]
    needed = {use.name for use in uses(made.node) if not use.binds}
    if read.arms != made.arms or any((needed | {name}) & bound(each.node) for each in between):
        return ""
    above = f"above line {read.node.lineno}{move(makes, 'above', *lines_of(makes.file, read.node.lineno))}"
    return f"Move line {makes.line}, `{makes.text}`, {above}."
