"""The output is a gradient whose graph leads to the input, but by operations whose second derivative is zero."""

from __future__ import annotations

import re

from backsight.diagnosis.errors.gradient_call import gradient_call
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.unused_input.case import Unused
from backsight.diagnosis.evidence.spoken import called, names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, listed, shown
from backsight.source.edits import on_line
from backsight.story.failure import Failure
from backsight.tape import Graph
from backsight.text import as_code


def constant(failure: Failure, graph: Graph, match: re.Match[str]) -> Finding | None:
    """Say that the second derivative is zero, which PyTorch reports as missing; None where no operation of the graph
    has differentiated another."""
    index = match["index"]
    if index is None or not any(node.op.endswith("Backward") for node in graph.nodes):
        return None
    name = as_code(names_of(failure, [failure.inputs[int(index)]])[0]) or "one of the inputs"
    output, call = called(failure, failure.roots[0]), gradient_call(failure.user)
    new = call.flagged("materialize_grads") if call is not None else ""
    zeros = on_line(call.place, new) if call is not None and new else "materialize_grads=True"
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


_GRADIENT = re.compile(r"\bgrad\(")


def is_linear(case: Unused) -> Finding | None:
    """The output is itself a gradient, and the first derivative does not depend on the input."""
    place, names = case.made, listed(case.names)
    if place is None or not _GRADIENT.search(case.output if place == case.at else place.text):
        return None
    return explanation(
        f"{case.output} is a derivative that does not depend on {names}: its own derivative is zero.",
        (
            shown(place, "takes the first derivative.", "read"),
            case.asked,
            f"{case.output} does not change with {names}: only linear operations lie between.",
        ),
        "If the function should be curved, put smooth activations such as nn.Tanh between the layers. If zero is "
        "the right answer, allow_unused=True with materialize_grads=True returns zeros.",
        source=case.failure.source,
        exact=False,
    )
