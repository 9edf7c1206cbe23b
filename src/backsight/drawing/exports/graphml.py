"""GraphML: the whole graph for yEd, Gephi and other graph tools."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from backsight.drawing.exports.network import attributes
from backsight.tape import Graph
from backsight.tape.cells import harmless

_KEYS = {
    "name": "string",
    "op": "string",
    "kind": "string",
    "leaf": "string",
    "shape": "string",
    "dtype": "string",
    "optimizer": "string",
    "module": "string",
    "saved": "string",
    "saved_bytes": "long",
}


def graphml(graph: Graph) -> str:
    """Return every node and edge of `graph` as GraphML; edges lead from producer to consumer.

    Source: http://graphml.graphdrawing.org/specification.html
    """
    return "\n".join(_lines(graph)) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    for key, kind in _KEYS.items():
        yield f'  <key id="{key}" for="node" attr.name="{key}" attr.type="{kind}"/>'
    yield '  <key id="output" for="edge" attr.name="output" attr.type="int"/>'
    yield '  <graph edgedefault="directed">'
    for node in graph.nodes:
        data = "".join(
            f"<data key={quoteattr(key)}>{escape(harmless(str(value)))}</data>"
            for key, value in attributes(node).items()
        )
        yield f'    <node id="n{node.index}">{data}</node>'
    for node, edge in graph.edges:
        ends = f'source="n{edge.node.index}" target="n{node.index}"'
        yield f'    <edge {ends}><data key="output">{edge.output}</data></edge>'
    yield "  </graph>"
    yield "</graphml>"
