"""A value through which alone a loss depends on the weights that an optimizer has stepped: `adv` of an actor's loss."""

from __future__ import annotations

from backsight.diagnosis.errors.second_backward.case import Case
from backsight.diagnosis.evidence.failure import Level
from backsight.diagnosis.evidence.holders import below, node_of, results_in
from backsight.source import Place


def detachable(case: Case, level: Level, owner: str) -> tuple[str, Place] | None:
    """Return the variable to detach so that the loss keeps nothing of the optimizer `owner`, and where it is read.

    None unless all that the variable was computed from is the optimizer's, all of the optimizer's that the loss
    depends on is reached through it, and another optimizer has something left to learn from the loss.
    """
    graph = case.graph
    mine = {leaf.node for leaf in graph.leaves if leaf.owner == owner}
    others = {leaf.node for leaf in graph.leaves if leaf.owner not in (None, owner)}
    leaves = {leaf.node for leaf in graph.leaves}
    found: list[tuple[int, str, Place]] = []
    for name, ancestor in case.ancestors(level).items():
        tensors = results_in(level.value(name))
        node = node_of(graph, tensors[0]) if len(tensors) == 1 else None
        if node is None or not leaves & set(below(graph, [node])) <= mine:
            continue
        around = set(below(graph, [root for root, _ in graph.root_edges], without={node}))
        if not mine & around and others & around:
            found.append((node, name, ancestor.read))
    nearest = min(found, key=lambda each: each[0], default=None)  # consumers come before producers
    return nearest[1:] if nearest else None
