"""Google's Model Explorer: the whole graph as the JSON that it opens, nested by module.

Source: https://github.com/google-ai-edge/model-explorer/wiki/4.-API-Guide
"""

from __future__ import annotations

import json
from typing import Any

from backsight.tape import Graph, Node
from backsight.tape.modules import module_of
from backsight.tape.rows import dimensions, dtype_name
from backsight.text import size


def model_explorer(graph: Graph) -> str:
    """Return `graph` as a graph collection of Model Explorer, leaves as operands of what consumes them.

    ```python
    Path("graph.json").write_text(model_explorer(backsight.graph(loss)))        # model-explorer graph.json
    ```
    """
    nodes = [_node(node) for node in reversed(graph.nodes) if node.leaf is None]
    return json.dumps({"label": "backward", "graphs": [{"id": "backward", "nodes": nodes}]}, ensure_ascii=False)


def _node(node: Node) -> dict[str, Any]:
    edges = [(k, edge) for k, edge in enumerate(node.inputs) if edge is not None]
    leaves = [edge.node.leaf.label for _, edge in edges if edge.node.leaf is not None]
    path = module_of(node)
    facts = {
        "node": str(node.index),
        "saved for backward": size(node.saved_bytes) if node.saved_bytes else "",
        "leaves": ", ".join(leaves),
        "source": node.source or "",
    }
    return {
        "id": str(node.index),
        "label": node.op,
        "namespace": path.replace(".", "/") + (f" (call {node.call + 1})" if path and node.call else ""),
        "incomingEdges": [
            {"sourceNodeId": str(edge.node.index), "sourceNodeOutputId": str(edge.output), "targetNodeInputId": str(k)}
            for k, edge in edges
            if edge.node.leaf is None
        ],
        "attrs": [{"key": key, "value": value} for key, value in facts.items() if value],
        "outputsMetadata": [
            {"id": str(k), "attrs": [{"key": "tensor_shape", "value": f"{dtype_name(o.dtype)} {dimensions(o.shape)}"}]}
            for k, o in enumerate(node.outputs)
            if o is not None
        ],
    }
