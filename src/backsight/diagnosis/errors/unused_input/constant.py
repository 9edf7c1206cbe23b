"""The output is a gradient whose graph leads to the input, but by operations whose second derivative is zero."""

from __future__ import annotations

import re

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.spoken import called, names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing
from backsight.source.body import calls_in
from backsight.source.edits import on_line
from backsight.source.imports import is_gradient_call
from backsight.source.rewriting import with_flag
from backsight.story.failure import Failure
from backsight.tape import Graph
from backsight.text import as_code


def constant(failure: Failure, graph: Graph, match: re.Match[str]) -> Finding | None:
    """Say that the second derivative is zero, which PyTorch reports as missing; None where no operation of the graph
    has differentiated another."""
    index = match["index"]
    if index is None or not any(node.op.endswith("Backward") for node in graph.nodes):
        return None
    tensor = failure.inputs[int(index)]
    name = as_code(names_of(failure, [tensor])[0]) or "one of the inputs"
    output = called(failure, failure.roots[0])
    level = failure.user
    call = next((each for each in calls_in(level.statement) if is_gradient_call(each)), None) if level else None
    new = (
        with_flag(level.body, level.statement, call, "materialize_grads")
        if level and level.body and level.statement and call
        else ""
    )
    zeros = on_line(level.place, new) if new and level else "materialize_grads=True"
    return explanation(
        f"{output} is a gradient that does not change with {name}: its own derivative is zero.",
        (
            *failing(failure, "asks for that derivative."),
            f"What {output} is the gradient of is linear in {name}: no activation or power follows it.",
        ),
        f"If zero is the right answer, let PyTorch return zeros: {zeros}. If it should be curved, put smooth "
        "activations such as nn.Tanh behind it.",
        source=failure.source,
    )
