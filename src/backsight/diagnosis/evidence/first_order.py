"""A gradient that an output was computed with as a constant: `autograd.grad` without `create_graph=True`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.evidence.cuts import statement_of
from backsight.source import Place, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.body import body_around, calls_in, is_constant, keyword
from backsight.source.imports import is_gradient_call
from backsight.story.attached import with_graph
from backsight.story.failure import Failure
from backsight.story.sections import sections
from backsight.tape import Graph
from backsight.tracing import current, met


class FirstOrder(NamedTuple):
    """Where such a gradient was taken, which of the tensors behind it are lost, and where it was used, if that was
    seen; the statement as it is with a graph, empty where that is too long."""

    place: Place
    lost: tuple[torch.Tensor, ...]
    used: Place | None
    mended: str


def first_order(failure: Failure, graph: Graph, tensors: Sequence[torch.Tensor]) -> FirstOrder | None:
    """Return the gradient that leads from the output to one of `tensors`: as a watch saw it, else as the text shows."""
    return _seen(graph, tensors) or _read(failure, tensors)


def _seen(graph: Graph, tensors: Sequence[torch.Tensor]) -> FirstOrder | None:
    watch = current()
    if watch is None or watch.level != "exact":
        return None
    numbers = [number for node in graph.nodes if (number := node.sequence) is not None]
    for each in met(watch, numbers).values():
        for cut, leaves, _ in each.cuts:
            behind = {id(leaf) for ref in leaves if (leaf := ref()) is not None}
            lost = tuple(tensor for tensor in tensors if id(tensor) in behind)
            statement = statement_of(cut)
            if cut.by == "derivative" and lost and cut.line is not None and statement is not None:
                body = body_around(cut.line.file, cut.line.line)
                call = next((node for node in calls_in(statement) if is_gradient_call(node)), None)
                mended = with_graph(body, statement, call) if body is not None and call is not None else ""
                return FirstOrder(cut.line.place, lost, each.line.place, mended)
    return None


def _read(failure: Failure, tensors: Sequence[torch.Tensor]) -> FirstOrder | None:
    asked = failure.user.place if failure.user else None
    for section in sections(failure):
        for call, place in section.calls():
            first_order = is_gradient_call(call) and not is_constant(keyword(call, "create_graph"), True)
            if not first_order or place == asked or not call.args:
                continue
            names = ancestors(section.body, section.body.text(call.args[0]), place.line)
            behind = [section.value(each) for each in names]
            lost = tuple(tensor for tensor in tensors if any(value is tensor for value in behind))
            statement = statement_at(section.body, *place.position)
            if lost and statement is not None:
                return FirstOrder(place, lost, None, with_graph(section.body, statement, call))
    return None
