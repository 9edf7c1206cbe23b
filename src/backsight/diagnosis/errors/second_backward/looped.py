"""Losses that share operations, each of which runs backward: those that a loop goes through."""

from __future__ import annotations

import ast

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.second_backward.losses import keeping_graph
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.source import statement_at
from backsight.source.ancestry import ancestors
from backsight.source.body import dotted
from backsight.story.carrier import Carrier
from backsight.story.case import Case
from backsight.story.failure import Level
from backsight.story.holders import results_in, structure
from backsight.story.stepping import optimizer_steps


def losses_of_loop(found: Carrier) -> Finding | None:
    """The loop goes through a container of losses that were computed before it, and runs backward on each."""
    level, facts, name = found.level, found.facts, found.variable
    loop = statement_at(level.body, *facts.loop.position) if facts is not None and found.kind == "once" else None
    if loop is None or level.body is None:
        return None
    value = level.value(name)
    several = type(value) in (list, tuple, dict)
    if several and any(each is found.case.root for each in results_in(value)):
        every = f"{name}.values()" if type(value) is dict else name
        fix = f"sum({every}).backward()"
    elif isinstance(loop, ast.For) and _runs_on(level, loop):
        fix = f"on sum({level.body.text(loop.iter)})"
    else:
        return None
    among = f"in {name}" if several else f"that come from {name}"
    return explanation(
        f"The losses {among} share operations, and the first backward() has freed them.",
        (
            *([shown(found.stored, f"computes {name} once, before the loop.")] if found.stored else []),
            shown(level.place, "frees its graph in the first iteration, and needs it again in the next."),
        ),
        f"Add the losses and call backward once, instead of the loop: {fix}.",
        source=str(level.place),
    )


def _runs_on(level: Level, loop: ast.For) -> bool:
    """Whether the loop goes through losses, with backward on each, and no optimizer steps in it."""
    target = dotted(loop.target) or ""
    if level.body is None or level.receiver is None or not results_in(level.value(target)):
        return False
    steps = (each.line for each in optimizer_steps(level))
    is_loss = target == level.receiver or target in ancestors(level.body, level.receiver, level.line)
    return is_loss and not any(loop.lineno < line <= (loop.end_lineno or 0) for line in steps)


def among_others(case: Case) -> Finding | None:
    """The loss is one of several in a list, which share operations: the backward of another has freed them."""
    for level in case.failure.users:
        for name, value in level.variables.items():
            losses = results_in(value) if type(value) in (list, tuple) else []
            at = next((k for k, each in enumerate(losses) if each is case.root), 0)
            shared = [each for each in losses[:at] if case.graph.shared(structure(each))]
            failing = case.failure.user
            if not shared or level.body is None or failing is None:
                continue
            line = keeping_graph(failing)
            fix = (
                f"Keep the graph for the next one: on line {failing.line}, write `{line}`."
                if line
                else f"Add the losses and call backward once: sum({name}).backward()."
            )
            return explanation(
                f"The losses in {name} share operations, and the backward of an earlier one has freed them.",
                (
                    shown(level.place, f"loops over {name}."),
                    *([shown(failing.place, "frees the graph of each.")] if level != failing else []),
                ),
                fix,
                source=str(failing.place),
            )
    return None
