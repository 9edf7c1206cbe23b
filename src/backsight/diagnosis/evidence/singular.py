"""Operations whose gradient may be infinite: where a NaN in the weights may have come from, once its graph is gone."""

from __future__ import annotations

from typing import NamedTuple

from backsight.source import Place
from backsight.tape import Graph, Node
from backsight.tracing import current

_AT = {
    "Sqrt": "at 0",
    "Rsqrt": "at 0",
    "Log": "at 0",
    "Log2": "at 0",
    "Log10": "at 0",
    "Xlogy": "at 0",
    "Logit": "at 0 and 1",
    "Acos": "at -1 and 1",
    "Asin": "at -1 and 1",
    "Acosh": "at 1",
    "Atanh": "at -1 and 1",
    "Atan2": "at 0, 0",
    "Reciprocal": "at 0",
    "Div": "where it divides by 0",
}

_MOST = 8


class Singular(NamedTuple):
    """An operation, where its gradient is infinite, and the statement that computes it."""

    op: str
    at: str
    place: Place


def singular(graph: Graph) -> list[Singular]:
    """Return such operations of a graph whose lines a watch has noted, in the order of the forward pass.

    A division by what requires no gradient is mostly one by a number.
    """
    watch = current()
    nodes = sorted((n for n in graph.nodes if n.op in _AT and _is_open(n)), key=lambda n: n.sequence or 0)
    found: dict[tuple[str, str], Singular] = {}
    for node in nodes if watch is not None else ():
        line = watch.line_of(node) if watch is not None else None
        if line is not None:
            found.setdefault((node.op, str(line.place)), Singular(node.op.lower(), _AT[node.op], line.place))
    return list(found.values())[:_MOST]


def _is_open(node: Node) -> bool:
    return node.op != "Div" or sum(edge is not None for edge in node.inputs) == 2
