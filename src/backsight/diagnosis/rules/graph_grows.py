"""BS110: each step's graph contains the last one's."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.history import operations
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene


@rule("BS110")
def graph_grows(scene: Scene) -> Iterator[Finding]:
    """Three audits at one place in a row found a larger graph, with ever more carried over from the one before."""
    past = scene.past
    if past is None or len(past.sizes) < 2:
        return
    mine = frozenset(operations(scene.graph))
    if mine == past.nodes:
        return  # the same graph, audited again
    sizes = (*past.sizes[-2:], len(mine))
    carried = (past.carried[-1], len(mine & past.nodes))
    if sizes[0] < sizes[1] < sizes[2] and 0 < carried[0] < carried[1]:
        yield Finding(
            "BS110",
            "warning",
            "The graph grows from step to step: something of every step before hangs on this loss.",
            (
                f"{sizes[0]}, {sizes[1]}, {sizes[2]} operations in the last three audits here; {carried[1]} of the "
                f"{sizes[2]} were in the graph of the step before already.",
            ),
            "Cut what is carried over: hidden = hidden.detach() for a state, total += loss.item() for a sum that is "
            "only printed.",
        )
