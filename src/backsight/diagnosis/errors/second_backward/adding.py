"""Two losses added up: how the sum is written, where it goes, and what both of them train."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import takewhile

from backsight.diagnosis.wording import listed
from backsight.source import Place, statement_at
from backsight.source.body import blocks, callee, calls_in, statements
from backsight.story.case import Case
from backsight.story.failure import Level
from backsight.story.holders import below


@dataclass(frozen=True)
class Added:
    """The backward of a sum, `(first + second).backward()`; `where` is a sentence, empty where nothing need be said."""

    call: str
    where: str


def added(level: Level, place: Place, other: str, loss: str) -> Added:
    """Write the sum of two losses for the backwards at `place` and at the level's own line.

    Gradients that are zeroed between the two would be those of the sum: that has to move above it.
    """
    call = f"({other} + {loss}).backward()"
    first, second = sorted((place, level.place), key=lambda each: each.position)
    zeroed = _zeroed(level, first, second)
    if not zeroed or statement_at(level.body, *second.position) is None:
        return Added(call, "")
    moved = listed([f"`{each}`" for each in zeroed])
    return Added(call, f" Do so on line {first.line}, delete `{second.text}`, and move {moved} above it.")


def _zeroed(level: Level, first: Place, second: Place) -> list[str]:
    """The statements between two places that zero gradients."""
    body = level.body
    if body is None:
        return []
    return [
        body.place(each).text
        for each in statements(body.node)
        if first.position < (each.lineno, each.col_offset) < second.position
        and not any(True for _ in blocks(each))
        and any(callee(call)[1] == "zero_grad" for call in calls_in(each))
    ]


def shared_part(case: Case, results: Collection[tuple[int, int]]) -> str:
    """Return the modules behind some results of the graph, `net.trunk`; empty where none is known."""
    joints = [i for i, key in enumerate(case.graph.identities) if key in results]
    every = (case.graph.nodes[i] for i in below(case.graph, joints))
    paths = dict.fromkeys(each.module for each in every if each.kind == "op" and each.module)
    parts = [path.split(".") for path in reversed(paths) if not path.startswith("(")]
    common = [*takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False))]
    found = dict.fromkeys(".".join(each[: len(common) or 1]) for each in parts)
    models = list(case.survey.models)
    return listed([f"{models[0]}.{each}" if len(models) == 1 else each for each in found])
