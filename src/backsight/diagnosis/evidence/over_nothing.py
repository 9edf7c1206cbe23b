"""A loss that a loop over something empty has left as it began: nothing that is trained is behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.evidence.idle import Reason
from backsight.diagnosis.evidence.left_out import grown
from backsight.diagnosis.evidence.turns import covers
from backsight.diagnosis.wording import listed, shown
from backsight.findings.evidence import Fact
from backsight.source import Place, assignments, backward_roots
from backsight.source.ancestry import ancestors
from backsight.source.bindings import spots
from backsight.source.body import callee, dotted
from backsight.source.edits import put_at
from backsight.story.failure import Failure, Level
from backsight.story.memory import is_tensor
from backsight.story.routes import leaves_of
from backsight.story.sections import Section, followed, losses


class _Empty(NamedTuple):
    """A loop over what a running function calls `name`, and the statement inside that would have added to the loss."""

    section: Section
    loop: ast.For
    adding: ast.stmt
    level: Level
    name: str


def over_nothing(failure: Failure, parameters: Sequence[torch.Tensor]) -> Reason | None:
    """Say what is empty in this step, and why the loss then has no term that reaches any of `parameters`."""
    starts = losses(failure.users)
    roots = [(section, root) for section in starts for root, _ in section.goals]
    held = [value for section, root in roots if is_tensor(value := section.value(root))]
    wanted = {id(each) for each in parameters}
    if not held or any(not wanted.isdisjoint(leaves_of(each)) for each in held):
        return None
    every: dict[str, _Empty] = {}
    for each in (each for section in followed(starts) for each in _empty(section)):
        every.setdefault(each.name, each)
    if not every:
        return None
    first, names = next(iter(every.values())), list(every)
    place = first.section.body.place(first.loop)
    are = f"{listed(names, 3)} {'is' if len(names) == 1 else 'are'} empty"
    return Reason(tuple(_evidence(list(every.values()))), place, _fix(first.level, names), held=True, because=are)


def _evidence(every: Sequence[_Empty]) -> Iterator[Fact]:
    made: dict[Place, list[str]] = {}
    begun: dict[Place, str] = {}
    for each in every:
        for place in assignments(each.level.body, each.name, before=each.level.line)[-1:]:
            made.setdefault(place, []).append(each.name)
        body, term = each.section.body, min(grown(each.adding))
        outside = (p for p in assignments(body, term, before=each.loop.lineno) if not any(_holds(e, p) for e in every))
        begun |= dict.fromkeys([*outside][-1:], term)
    for place, names in made.items():
        yield shown(place, f"gives {listed(names, 3)}, which {'is' if len(names) == 1 else 'are'} empty in this step.")
    for place, term in begun.items():
        yield shown(place, f"begins {term}.")
    for each in every:
        body = each.section.body
        yield shown(body.place(each.loop), f"runs over {each.name}, so nothing is added to {min(grown(each.adding))}.")


def _holds(found: _Empty, place: Place) -> bool:
    return found.section.body.file == place.file and covers(found.loop, place.line)


def _empty(section: Section) -> Iterator[_Empty]:
    """The loops of a function over something empty, in which its result would have grown."""
    read = {name for goal, line in section.goals for name in ancestors(section.body, goal, line)}
    for spot in spots(section.body.node):
        counts = isinstance(spot.node, ast.AugAssign) and isinstance(spot.node.value, ast.Constant)  # n += 1
        adds = not counts and grown(spot.node) & read
        for loop in (arm for arm, label in spot.arms if label == "body" and adds):
            holder = _holder(section, loop.iter) if isinstance(loop, ast.For) else None
            if isinstance(loop, ast.For) and holder is not None:
                yield _Empty(section, loop, spot.node, *holder)


def _holder(section: Section, iterated: ast.expr) -> tuple[Level, str] | None:
    """The running function that has what a loop runs over, and its name there, if it is empty."""
    if isinstance(iterated, ast.Call):
        receiver, method = callee(iterated)
        of_dict = receiver is not None and method in ("items", "values", "keys")
        of_list = receiver is None and method in ("enumerate", "reversed") and iterated.args
        inner = receiver if of_dict else iterated.args[0] if of_list else None
        return _holder(section, inner) if inner is not None else None
    name = dotted(iterated)
    if name is None:
        return None
    if section.level is not None:
        value = section.value(name)
        return (section.level, name) if type(value) in (list, tuple, dict, set) and not value else None
    given = section.given.get(name)
    return _holder(section.caller, given) if given is not None and section.caller is not None else None


def _fix(level: Level, names: Sequence[str]) -> str:
    """Leave the step out where there is nothing to learn from."""
    empty = " or ".join(names)
    body = level.body
    running = next((place for _, place in backward_roots(body)), None)
    spot = next((each for each in spots(body.node) if body.place(each.node) == running), None) if body else None
    loops = spot.around(ast.For, ast.While) if spot else []
    if running is None or not any(covers(each, level.line) for each in loops):
        return f"Run backward() and what follows it in the step only `if {empty}:`."
    condition = f"({empty})" if len(names) > 1 else empty
    skip = f"if not {condition}: continue"
    return f"Skip a step that has nothing to learn from: {put_at(skip, 'above', running)}."
