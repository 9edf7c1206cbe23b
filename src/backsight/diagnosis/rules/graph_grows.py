"""BS110: each step's graph contains the last one's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.history import growth_since, operations
from backsight.diagnosis.live.culprit import does, fix
from backsight.diagnosis.live.statements import carrying
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import shown
from backsight.source.keeping import Keeping

_FIX = (
    "Cut what is carried over: hidden = hidden.detach() for a state, total += loss.item() for a sum that is only "
    "printed."
)


@rule("BS110")
def graph_grows(scene: Scene) -> Iterator[Finding]:
    """Three audits at one place, with a backward between each, found ever more carried over from the one before.

    Without a backward between them it is one loss that is being summed up.
    """
    past = scene.past
    if past is None or len(past.growth) < 2 or np.array_equal(operations(scene.graph), past.operations):
        return
    first, second = past.growth
    third = growth_since(past, scene.graph)
    grows = first.size < second.size < third.size and 0 < second.carried < third.carried
    if grows and second.trained and third.trained:
        where = _carried_by(scene)
        yield Finding(
            "BS110",
            "warning",
            "The graph grows from step to step: this loss is still attached to the graph of every earlier step.",
            (
                f"{first.size}, {second.size}, {third.size} operations in the last three audits here; {third.carried} "
                f"of the {third.size} were in the graph of the step before already.",
                *(shown(keeping.place, does(keeping)) for keeping in where),
            ),
            fix(where, scene.graph.roots[0].shape or ()) if where else _FIX,
            source=str(where[0].place) if where else None,
        )


def _carried_by(scene: Scene) -> list[Keeping]:
    """Return the statement that carries the graph over, if there is one and only one that may."""
    numbers = [node.sequence for node in scene.graph.nodes if node.sequence is not None]
    found = carrying(min(numbers), max(numbers), *scene.site) if numbers else []
    return found if len(found) == 1 else []
