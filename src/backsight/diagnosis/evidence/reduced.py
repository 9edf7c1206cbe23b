"""Values of the samples that meet the features, because there happen to be as many of both."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from backsight.diagnosis.scene import Scene
from backsight.source import parsed
from backsight.source.body import callee, given_to, keyword
from backsight.story.holders import given
from backsight.tape import Node
from backsight.tracing import Line

_JOINS = frozenset({"Add", "Sub", "Mul", "Div"})
_REDUCTIONS = {
    "Sum": ("sum",),
    "Mean": ("mean",),
    "LinalgVectorNorm": ("norm", "vector_norm"),
    "Norm": ("norm",),
    "Std": ("std",),
    "Var": ("var",),
    "Amax": ("amax",),
    "Amin": ("amin",),
    "Max": ("max",),
    "Min": ("min",),
    "Logsumexp": ("logsumexp",),
}
"""The operations, each with the calls that run them."""

_ENTRY_BY_ENTRY = frozenset(
    {"Add", "Sub", "Mul", "Div", "Pow", "Exp", "Log", "Sqrt", "Rsqrt", "Abs", "Neg", "Clamp", "ClampMin", "Reciprocal"}
    | {"Relu", "LeakyRelu", "Elu", "Gelu", "Silu", "Tanh", "Sigmoid", "Softplus", "ToCopy", "NativeDropout"}
)


class Reduced(NamedTuple):
    """A reduction over the features, where its result meets what has them, and how it keeps their dimension."""

    size: int
    reduction: Line
    meeting: Line
    node: Node
    kept: str


def against_features(scene: Scene) -> Iterator[Reduced]:
    """Yield the reductions over the features of a layer's result that go into that result along its features.

    Only where a layer has made it: then its rows are the samples, and no symmetry makes rows and columns alike.
    """
    for node in scene.graph.nodes:
        size = node.shape[0] if node.op in _JOINS and node.shape and len(node.shape) == 2 else 0
        if size < 2 or node.shape != (size, size):
            continue
        both = given(node)
        small = next((each for each in both if each.shape == (size,)), None)
        large = next((each for each in both if each.shape == (size, size)), None)
        reduction = _first(small, (size,), _REDUCTIONS) if small is not None else None
        if reduction is None or large is None:
            continue
        base = _first(large, (size, size))
        rows = [each for each in given(reduction) if each.shape == (size, size)]
        if base is None or not _is_of_a_layer(base) or [_first(each, (size, size)) for each in rows] != [base]:
            continue
        where, meeting = scene.line_of(reduction), scene.line_of(node)
        kept = _keeping(where.segment, _REDUCTIONS[reduction.op]) if where is not None else ""
        if kept and where is not None and meeting is not None:
            yield Reduced(size, where, meeting, node, kept)


def _first(node: Node, shape: tuple[int, ...], wanted: dict[str, tuple[str, ...]] | None = None) -> Node | None:
    """The first node behind some that work entry by entry; of a wanted kind, where that matters.

    None where rows were scaled on the way: with both, as in the normalization of a graph, columns are scaled too.
    """
    at: Node | None = node
    while at is not None and at.op in _ENTRY_BY_ENTRY:
        if at.op in ("Mul", "Div") and any(each.shape == (*shape[:1], 1) for each in given(at)):
            return None
        alike = [each for each in given(at) if each.shape == shape]
        at = alike[0] if alike else None
    return at if at is not None and (wanted is None or at.op in wanted) else None


def _is_of_a_layer(node: Node) -> bool:
    """Whether a node multiplies what is no weight by one from the right, as nn.Linear does."""
    both = given(node)
    weights = (each for each in both if each.op == "T")
    with_weight = any(leaf.kind == "leaf" for each in weights for leaf in given(each))
    return with_weight and (node.op == "Addmm" or (node.op == "Mm" and all(each.kind != "leaf" for each in both)))


def _keeping(segment: str, names: tuple[str, ...]) -> str:
    """A reduction over the last of two dimensions as text, with that dimension kept; empty for any other."""
    calls = [n for n in ast.walk(parsed(segment) or ast.Pass()) if isinstance(n, ast.Call) and callee(n)[1] in names]
    if len(calls) != 1:
        return ""
    call = calls[0]
    written = keyword(call, "dim", "axis") or next(iter(given_to(call)[-1:]), None)
    try:
        dim = ast.literal_eval(written) if written is not None else None
    except ValueError:
        return ""
    if (dim[0] if isinstance(dim, tuple) and len(dim) == 1 else dim) not in (1, -1):
        return ""
    call.keywords = [each for each in call.keywords if each.arg != "keepdim"]
    call.keywords.append(ast.keyword("keepdim", ast.Constant(True)))
    return ast.unparse(call)
