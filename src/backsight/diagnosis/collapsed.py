"""BS163: a loss asks two outputs of a model to be alike, and nothing else: all outputs become the same."""

from __future__ import annotations

import ast
from collections.abc import Collection

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import if_known, numbered, warning
from backsight.source import parsed
from backsight.source.body import dotted
from backsight.source.rewriting import simple
from backsight.story.holders import below, given
from backsight.tape import Graph, Node
from backsight.tracing import current

CODES = ("BS163",)

_LIKENESS = frozenset(
    {"Neg", "Mean", "Sum", "Mul", "Add", "Sub", "Rsub", "Div", "Expand", "ClampMin", "Clamp", "Maximum", "Pow", "Sqrt"}
    | {"LinalgVectorNorm", "Norm", "MseLoss", "View", "UnsafeView", "ReshapeAlias", "Select", "Squeeze", "Unsqueeze"}
    | {"Stack", "Slice", "SmoothL1Loss", "Abs", "SumToSize", "ToCopy", "Clone"}
)
"""What a similarity of two outputs, or a distance between them, is made of."""

_COMPARE = frozenset({"Mul", "Sub", "MseLoss"})
_REDUCE = frozenset({"Mean", "Sum"})


def collapsed(
    graph: Graph, made: Collection[tuple[int, int]], first: float, latest: float, since: int
) -> Finding | None:
    """Return the finding that all outputs have become alike, if the loss is a similarity of two of them alone: with
    gradients to both sides, and with nothing that pushes samples apart.

    made: what identifies the nodes of what modules have returned in this step.
    """
    border = {index for index, each in enumerate(graph.identities) if each in made}
    outside = _before(graph, border)
    if not border or any(node.op not in _LIKENESS for node in outside):
        return None
    compares = [node for node in outside if node.op in _COMPARE and _is_of_both(graph, node, border)]
    if not compares:
        return None
    node, watch = compares[0], current()
    line = watch.line_of(node) if watch is not None else None
    operation = watch.operation_of(node) if watch is not None else None
    texts = [each.text for each in operation.operands[:2]] if operation is not None else []
    one, other = (_owned(graph, each) for each in given(node))
    target = _detached(texts[0 if one < other else 1]) if len(texts) == 2 else ""
    stop = f"{target} on line {line.line}" if target and line is not None else "detach the target"
    return warning(
        "BS163",
        "The outputs have collapsed: they are nearly the same for all samples.",
        (
            f"The cosine between outputs of different samples was {first:.2f} at first, and is {latest:.3f} at step "
            f"{numbered(since)}.",
            if_known(line, "compares two outputs of the model, with gradients to both."),
            "The loss asks only that they are alike: a constant output is its minimum.",
        ),
        f"Stop the gradient on one side: {stop}, with a predictor on the other side, as in SimSiam. Or add a term that "
        "pushes different samples apart.",
        line,
        nodes=(node.index,),
        since=since,
    )


def _before(graph: Graph, border: set[int]) -> list[Node]:
    """Return what stands between the loss and some nodes."""
    found = [node for node in graph.roots if node.index not in border]
    seen = {node.index for node in found}
    for node in found:  # grows as we go
        for each in given(node):
            if each.index not in border and each.index not in seen:
                seen.add(each.index)
                found.append(each)
    return found


def _is_of_both(graph: Graph, node: Node, border: set[int]) -> bool:
    """Whether an operation compares two results of the same parameters."""
    inputs = given(node)
    if len(inputs) != 2 or inputs[0].index == inputs[1].index:
        return False
    if any(each.op in _REDUCE for each in inputs):  # a critic's mean minus another is no distance
        return False
    one, other = (set(below(graph, [each.index])) for each in inputs)
    # A norm is computed from what it divides: neither side may lie below the other.
    apart = inputs[0].index not in other and inputs[1].index not in one
    shared = _owned(graph, inputs[0]) & _owned(graph, inputs[1])
    return apart and bool(shared) and bool(one & border) and bool(other & border)


def _owned(graph: Graph, node: Node) -> set[int]:
    """Return the parameters that a result is computed from: those of a target are some of a prediction's."""
    return {leaf.node for leaf in graph.leaves if leaf.owner} & set(below(graph, [node.index]))


def _detached(text: str) -> str:
    """Return an operand as it is without a gradient: `F.normalize(z.detach(), dim=1)`; empty for what is no code."""
    value = parsed(text)
    if value is None:
        return ""
    given = value.args[0] if isinstance(value, ast.Call) and value.args else None
    inner = dotted(given) if given is not None else None
    if isinstance(value, ast.Call) and inner is not None:
        value.args[0] = ast.parse(f"{inner}.detach()", mode="eval").body
        return ast.unparse(value)
    return f"{simple(text)}.detach()"
