"""BS110: each step's graph contains the last one's."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.live.culprit import carrying, does, fix
from backsight.diagnosis.scene import Scene, growth_since, operations, rule
from backsight.diagnosis.wording import shown, warning
from backsight.source.keeping import Keeping

_OLD = 16
"""Steps of optimizers that no iteration takes, however many optimizers it has."""

_FIX = (
    "Detach what is carried over: hidden = hidden.detach() for a state, total += loss.item() for a sum that you only "
    "print."
)


@rule("BS110")
def graph_grows(scene: Scene) -> Iterator[Finding]:
    """Three audits at one place, with a backward between each, found ever more carried over from the one before.

    Without a backward between them it is one loss that is being summed up. Or one audit finds operations that are older
    than many optimizer steps, more than any loop makes within one iteration.
    """
    size = len(operations(scene.graph))
    if aged := _aged(scene):
        yield _finding(scene, f"{aged} of its {size} operations were made more than {_OLD} optimizer steps ago.")
        return
    past = scene.past
    if past is None or len(past.growth) < 2 or np.array_equal(operations(scene.graph), past.operations):
        return
    first, second = past.growth
    third = growth_since(past, scene.graph)
    grows = first.size < second.size < third.size and 0 < second.carried < third.carried
    if grows and second.trained and third.trained:
        yield _finding(
            scene,
            f"{first.size}, {second.size}, {third.size} operations in the last three audits at this line; "
            f"{third.carried} of the {third.size} were already in the graph of the previous step.",
        )


def _finding(scene: Scene, known: str) -> Finding:
    where = _carried_by(scene)
    return warning(
        "BS110",
        "The graph grows from step to step: this loss is still attached to the graph of every earlier step.",
        (known, *(shown(keeping.place, does(keeping)) for keeping in where)),
        fix(where, scene.graph.roots[0].shape or ()) if where else _FIX,
        where[0].place if where else None,
    )


def _aged(scene: Scene) -> int:
    """Return how many operations of the graph are older than the last `_OLD` steps of this thread.

    They have to be of several steps: what was computed once, and is used ever since, is no growth.
    """
    past = scene.steps.past.get(threading.get_ident(), ()) if scene.steps is not None else ()
    if len(past) < _OLD:
        return 0
    made = np.array([n.sequence for n in scene.graph.nodes if n.kind != "leaf" and n.sequence is not None])
    of_steps = {*np.searchsorted(np.array(past), made, side="right").tolist()}
    return int((made < past[-_OLD]).sum()) if len(of_steps) > _OLD // 2 else 0


def _carried_by(scene: Scene) -> list[Keeping]:
    """Return the statement that carries the graph over, if there is one and only one that may."""
    numbers = [node.sequence for node in scene.graph.nodes if node.sequence is not None]
    found = carrying(min(numbers), max(numbers), *scene.site) if numbers else []
    return found if len(found) == 1 else []
