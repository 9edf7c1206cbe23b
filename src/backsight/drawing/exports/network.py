"""The whole graph for networkx: every node, nothing folded or hidden."""

from __future__ import annotations

from typing import Any

from backsight.tape import Graph, Node
from backsight.tape.rows import dimensions, dtype_name


def networkx_graph(graph: Graph) -> Any:
    """Return `graph` as a `networkx.MultiDiGraph` with edges from producer to consumer, as data flows.

    ```python
    nx = networkx_graph(backsight.graph(loss))
    nx.nodes[0]["op"]       # "MseLoss"
    ```

    Raises:
        ImportError: if networkx is not installed.
    """
    try:
        import networkx
    except ImportError as error:
        raise ImportError("to_networkx() needs networkx: pip install networkx") from error
    out = networkx.MultiDiGraph()
    out.add_nodes_from((node.index, attributes(node)) for node in graph.nodes)
    out.add_edges_from((edge.node.index, node.index, {"output": edge.output}) for node, edge in graph.edges)
    return out


def attributes(node: Node) -> dict[str, str | int]:
    """Return what is known of a node, as text and numbers only."""
    leaf = node.leaf
    known: dict[str, str | int] = {"name": node.name, "op": node.op, "kind": node.kind}
    if leaf is not None:
        known |= {"leaf": leaf.label, "shape": dimensions(leaf.shape), "dtype": dtype_name(leaf.dtype)}
        known["optimizer"] = leaf.owner or ""
    elif node.shape is not None and node.dtype is not None:
        known |= {"shape": dimensions(node.shape), "dtype": dtype_name(node.dtype)}
    if node.module:
        known["module"] = node.module
    if node.saved:
        known |= {"saved": ", ".join(s.name for s in node.saved), "saved_bytes": node.saved_bytes}
    return known
