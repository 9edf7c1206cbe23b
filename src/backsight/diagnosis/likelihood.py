"""BS122: the logarithm of a probability is minimized, so that what is right becomes ever less probable."""

from __future__ import annotations

import ast

from backsight.diagnosis.amending import instead
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.source import Body, Place, statement_at
from backsight.source.body import body_around
from backsight.source.rewriting import rewritten
from backsight.story.holders import given, leaves_below
from backsight.tape import Graph, Node
from backsight.tracing import current

CODES = ("BS122",)

_AVERAGES = frozenset({"Mean", "Sum", "View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Select"})
_CHOOSES = frozenset({"Gather", "Index"})
_LAYERS = frozenset({"Addmm", "Mm"})
_DEEPEST = 16


def minimized(graph: Graph) -> Node | None:
    """Return the node of a log-probability that is the whole loss, up to a sum or mean; None if there is none.

    It is a score less the logarithm of the sum of all of them, or an entry of a log-softmax. Whoever looks for an input
    that is misunderstood minimizes that as well: so what is trained has to be the model, and nothing but that.
    """
    if len(graph.roots) != 1 or any(kind.kind == "custom" for kind in graph.types):
        return None
    node, negative = graph.roots[0], False
    for _ in range(_DEEPEST):
        inputs = given(node)
        if node.op == "Neg":
            negative = not negative
        elif node.op not in _AVERAGES or len(inputs) != 1:
            break
        if not inputs:
            return None
        node = inputs[0]
    if negative or not (_is_difference(graph, node) or _is_entry(node)):
        return None
    alone = len({leaf.owner for leaf in graph.leaves}) == 1  # else one of several may be trained against another
    return node if alone and all(leaf.owner and leaf.kind == "parameter" for leaf in graph.leaves) else None


def _is_difference(graph: Graph, node: Node) -> bool:
    """Whether a node subtracts from a score the logarithm of a sum over all scores: what is trained for both is one."""
    first, second = node.inputs if node.op == "Sub" and len(node.inputs) == 2 else (None, None)
    if first is None or second is None or _behind(second.node).op != "Logsumexp":
        return False
    one, other = (leaves_below(graph, each.node.index) for each in (first, second))
    return bool(one) and {leaf.node for leaf in one} <= {leaf.node for leaf in other}


def _is_entry(node: Node) -> bool:
    """Whether a node takes entries of a log-softmax over what a layer that is trained returns."""
    inputs = given(node)
    if node.op not in _CHOOSES or len(inputs) != 1:
        return False
    softmax = _behind(inputs[0])
    scores = given(softmax) if softmax.op == "LogSoftmax" else []
    layer = _behind(scores[0]) if len(scores) == 1 else None
    return layer is not None and layer.op in _LAYERS and any(each.kind == "leaf" for each in _transposed(layer))


def _behind(node: Node) -> Node:
    for _ in range(_DEEPEST):
        inputs = given(node)
        if node.op not in _AVERAGES - {"Mean", "Sum"} or len(inputs) != 1:
            break
        node = inputs[0]
    return node


def _transposed(layer: Node) -> list[Node]:
    """Return what a layer multiplies, behind a transpose."""
    return [given(each)[0] if each.op in ("T", "Transpose") and given(each) else each for each in given(layer)]


def less_probable(graph: Graph, node: Node, first: float, last: float, step: int) -> Finding:
    """Return the finding that a log-probability is minimized, which was `first` and is `last` at a step."""
    watch = current()
    line = watch.line_of(node) if watch is not None else None
    root = watch.line_of(graph.roots[0]) if watch is not None else None
    place = line.place if line is not None else root.place if root is not None else None
    return warning(
        "BS122",
        "The loss is the logarithm of a probability, which training makes ever smaller.",
        (
            if_known(line, "computes it: a score minus the logarithm of the sum over all of them.")
            if node.op == "Sub"
            else if_known(line, "computes it: an entry of a log-softmax."),
            shown(root.place, "averages it, and nothing changes its sign.")
            if root is not None and root.place != place
            else None,
            f"A logarithm of a probability is never above 0. The loss fell from {first:.4g} to {last:.4g}.",
        ),
        f"Minimize its negative{_negated(place)}.",
        place,
        nodes=(node.index,),
        since=step,
    )


def _negated(place: Place | None) -> str:
    """Return a statement that returns or assigns an expression, with its negative."""
    body: Body | None = body_around(place.file, place.line) if place is not None else None
    statement = statement_at(body, *place.position) if body is not None and place is not None else None
    value = statement.value if isinstance(statement, ast.Return | ast.Assign) else None
    if body is None or statement is None or value is None:
        return ""
    text = body.text(value)
    simple = isinstance(value, ast.Call | ast.Name | ast.Attribute | ast.Subscript)
    changes: dict[ast.expr, str] = {value: f"-{text}" if simple else f"-({text})"}
    mended = rewritten(body, statement, changes)
    return f": {mended}{instead(body, statement, changes)}" if mended else ""
