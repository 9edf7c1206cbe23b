"""A result that is computed once, before the loop that uses it in every iteration."""

from __future__ import annotations

import ast

from backsight.diagnosis.errors.second_backward.case import Case, loops
from backsight.diagnosis.evidence.holders import made_in, needs_saved, results_in
from backsight.diagnosis.evidence.spoken import simple
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.source import LoopFacts, statement_at
from backsight.source.ancestry import Ancestor
from backsight.source.body import dotted, expressions
from backsight.story.failure import Level
from backsight.story.memory import is_tensor
from backsight.story.stepping import optimizer_steps


def computed_once(case: Case) -> Finding | None:
    """A variable that the loop reads and never assigns holds a result of this very graph."""
    for level in case.failure.users:
        names = case.ancestors(level)
        for facts in loops(level):
            for name, ancestor in names.items():
                value = level.value(name)
                if name in facts.assigned or value is case.root or _is_namespace(value) or _acts(level, ancestor):
                    continue
                nodes = [i for i in made_in(case.graph, value) if needs_saved(case.graph, i)]
                if nodes and (not case.joints or set(nodes) & set(case.joints)):
                    return _finding(case, level, facts, ancestor)
    return None


def _is_namespace(value: object) -> bool:
    """Whether this is the dictionary that `exec` was given: what it holds was computed by code elsewhere."""
    return type(value) is dict and "__builtins__" in value


def _acts(level: Level, ancestor: Ancestor) -> bool:
    """Whether the statement calls a method of what the name stands for: an object computes, it was not computed."""
    value = level.value(ancestor.name)
    if is_tensor(value) or type(value) in (list, tuple, dict):
        return False
    statement = statement_at(level.body, *ancestor.read.position) if level.body else None
    calls = (node for node in expressions(statement) if isinstance(node, ast.Call)) if statement else ()
    return any((dotted(call.func) or "").startswith(f"{ancestor.name}.") for call in calls)


def _finding(case: Case, level: Level, facts: LoopFacts, ancestor: Ancestor) -> Finding:
    name = ancestor.name
    filled = [place for place in ancestor.bound if place.line > facts.loop.line]
    made = [place for place in ancestor.bound if place.line < facts.loop.line]
    if filled:
        return Finding(
            "BS201",
            "error",
            f"{name} still holds results of earlier iterations, whose graphs backward() has freed.",
            (
                shown(filled[0], "adds to it in every iteration, and nothing empties it."),
                shown(ancestor.read, "uses all of it again."),
                shown(level.place, "runs into what the iteration before has freed."),
            ),
            f"Empty {name} at the start of each iteration, or add results after .detach() to it.",
            source=str(filled[0]),
        )
    origin = shown(made[-1], "computes it, before the loop.") if made else _given(level, name)
    use = shown(ancestor.read, f"uses it in every iteration of the loop at line {facts.loop.line}.")
    summed = _summed(case, level, ancestor)
    return Finding(
        "BS201",
        "error",
        f"{name} is computed once, before the loop, and the first backward() has freed its graph."
        if not summed
        else f"The losses in {name} share operations, and the first backward() has freed them.",
        (
            origin,
            *((use,) if ancestor.read != level.place else ()),
            shown(level.place, "frees its graph in the first iteration, and needs it again in the next."),
        ),
        summed or f"Compute {name} inside the loop. {_otherwise(case)}",
        source=str(level.place if summed else made[-1] if made else ancestor.read),
    )


def _summed(case: Case, level: Level, ancestor: Ancestor) -> str:
    """What to do where the loop goes through a container of losses, and runs backward on each."""
    name, value = ancestor.name, level.value(ancestor.name)
    if type(value) not in (list, tuple, dict) or not any(each is case.root for each in results_in(value)):
        return ""
    every = f"{name}.values()" if type(value) is dict else name
    return f"Add the losses and call backward once, in place of the loop: sum({every}).backward()."


def _otherwise(case: Case) -> str:
    """What to do if it is computed once on purpose."""
    if any(optimizer_steps(each) for each in case.failure.users):
        return "If what computes it is not meant to be trained here, compute it once under torch.no_grad()."
    call = f"{simple(case.receiver or 'loss')}.backward"
    return (
        "If it is computed once on purpose and no optimizer steps between the backwards, keep its graph: "
        f"{call}(retain_graph=True) in every iteration but the last."
    )


def _given(level: Level, name: str) -> str:
    known = name.split(".")[0] in level.variables
    return f"{level.function} is given {name}, computed before." if known else f"{name} was computed before."
