"""BS204: a gradient was asked for with respect to a tensor that the output does not depend on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from backsight.diagnosis.errors.registry import explains
from backsight.diagnosis.failure import Failure
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.holders import structure
from backsight.diagnosis.spoken import called, differentiated, names_of
from backsight.diagnosis.wording import counted, described, listed, shown
from backsight.snapshot import survey
from backsight.source import Place, assignments, receiver_of_backward
from backsight.source.ancestry import ancestors
from backsight.tape import Graph, NotInGraph

CODE = "BS204"


@dataclass(frozen=True, eq=False)
class Unused:
    """What was asked for in vain: the tensors and what the user's line calls them, the output, and its graph."""

    failure: Failure
    graph: Graph
    output: str
    tensors: tuple[torch.Tensor, ...]
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def made(self) -> tuple[Place, ...]:
        """The statements that compute the output, in source order."""
        level = self.failure.user
        receiver = receiver_of_backward(level.body, level.line) if level and level.body else None
        if not receiver or level is None or level.body is None:
            return ()
        found = ancestors(level.body, receiver, level.line)
        places = {place for each in found.values() for place in each.bound if place.line < level.line}
        return tuple(sorted(places, key=lambda place: place.line))


@explains(CODE, r"appears to not have been used in the graph")
def unused_input(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the inputs that the output does not depend on, and say what stands in their place."""
    roots = [root for root in failure.roots if getattr(root, "requires_grad", True)]
    graph = survey(tuple(roots), frames=failure.frames).graph if roots else None
    found = _unused(failure, graph) if graph else []
    if graph is None or not found:
        return _unlocated(failure)
    tensors, names = zip(*found, strict=True)
    output = called(failure, roots[0]) or "the output"
    case = Unused(failure, graph, output, tensors, names)
    return _made_afterwards(case) or _is_linear(case) or _replaced(case) or _takes_no_part(case)


def _unused(failure: Failure, graph: Graph) -> list[tuple[torch.Tensor, str]]:
    """The inputs that no path of the graph leads to, with their names."""
    written = differentiated(failure)
    if len(written) != len(failure.inputs):  # parameters, or a list made elsewhere
        written = names_of(failure, failure.inputs)
    every = zip(failure.inputs, written, strict=True)
    return [(t, name or described(t)) for t, name in every if isinstance(t, torch.Tensor) and not _reaches(graph, t)]


def _reaches(graph: Graph, tensor: torch.Tensor) -> bool:
    try:
        graph.path(graph.roots[0], tensor)
    except NotInGraph:
        return False
    return True
