"""A result that a suspended generator carries from what it yielded last into what it yields next."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.second_backward.carried import steps_seen, why_not_retain
from backsight.diagnosis.evidence.carried import Carried
from backsight.diagnosis.evidence.case import Case, loops
from backsight.diagnosis.evidence.holders import made_in, results_in
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown, tensor_of, unwatched
from backsight.findings.evidence import Certainty
from backsight.naming.suspended import suspended
from backsight.source import may_have_history, statement_at
from backsight.source.body import blocks
from backsight.story.failure import Level


def yielded(case: Case) -> Finding | None:
    """A variable of a generator that an iteration of its loop reads before it assigns it holds a result of the loss."""
    found = next(_carried(case), None)
    failing = case.failure.user
    if found is None or failing is None:
        return None
    level, name, seen = found.level, found.name, steps_seen(case)
    value = results_in(level.value(name))
    shape = f", {tensor_of(value[0].shape)}," if len(value) == 1 else ""
    certainty: Certainty | None = None if seen else "read"
    place = level.place
    end = place.end or place.line
    return explanation(
        f"{name}{shape} carries the graph of one iteration of {level.function}() into the next, and backward() has "
        "freed that graph.",
        (
            shown(found.read, f"reads {name} from the previous iteration, still attached to its graph.", certainty),
            *(
                [shown(found.assigned, "assigns it for the next iteration.", certainty)]
                if found.assigned != found.read
                else []
            ),
            shown(place, f"waits here while the backward runs, and keeps {name}."),
            shown(failing.place, "backpropagates into the graph of the previous iteration, which is already freed."),
            *(seen or unwatched()),
        ),
        f"Put `{found.detached()}` below line {end}, where {level.function}() goes on. {why_not_retain(case)}",
        source=str(found.assigned),
        exact=bool(seen),
    )


def _carried(case: Case) -> Iterator[Carried]:
    for level in _suspended(case):
        for facts in loops(level):
            names = [
                name
                for name, (read, assigned) in facts.carried.items()
                if made_in(case.graph, level.value(name))
                and case.carries(level, name, read)
                and (statement := statement_at(level.body, *assigned.position)) is not None
                and may_have_history(statement)
            ]
            if names:
                yield Carried(level, tuple(names), *facts.carried[names[0]], "iteration", facts)


def _suspended(case: Case) -> Iterator[Level]:
    """The generators and coroutines of the program that wait for the next request, at a statement of their own."""
    for frame in suspended(case.failure.frames):
        level = Level(frame, frame.f_lineno)
        if level.statement is not None and not any(True for _ in blocks(level.statement)):
            yield level
