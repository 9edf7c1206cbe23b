"""BS110: each step's graph contains the last one's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.history import growth_since, operations
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene


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
        yield Finding(
            "BS110",
            "warning",
            "The graph grows from step to step: something of every step before hangs on this loss.",
            (
                f"{first.size}, {second.size}, {third.size} operations in the last three audits here; {third.carried} "
                f"of the {third.size} were in the graph of the step before already.",
            ),
            "Cut what is carried over: hidden = hidden.detach() for a state, total += loss.item() for a sum that is "
            "only printed.",
        )
