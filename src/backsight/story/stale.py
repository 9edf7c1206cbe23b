"""What a graph cannot go back through any more: its saved tensors that were modified in place since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backsight.story.changes import Changed, changes
from backsight.story.subject import Subject
from backsight.tape import Graph, Node, Saved

_MOST = 8
"""Tensors whose changes are looked for."""


def stale(graph: Graph) -> list[tuple[Node, Saved]]:
    """Return the saved tensors that were changed since, each with the operation that saved it, in backward order."""
    every = ((graph.nodes[i], saved) for i in sorted(graph.saved) for saved in graph.saved[i])
    return [(node, saved) for node, saved in every if saved.state == "modified"]


def stale_beside(subject: Subject, found: Sequence[Changed]) -> Iterator[tuple[Subject, Changed]]:
    """Yield the other tensors of the graph that statements have changed, as far as that is certain.

    found: what has changed the subject; each further statement is told once, with the first tensor that it changed.
    """
    storages, told = [subject.saved.storage], {each.place for each in found}
    for node, saved in stale(subject.survey.graph):
        if saved.storage in storages or len(storages) > _MOST:
            continue
        storages.append(saved.storage)
        other = Subject(subject.failure, subject.survey, node, saved)
        for each in changes(other)[:1]:
            if each.by == "statement" and each.certainty != "read" and each.place not in told:
                told.add(each.place)
                yield other, each
