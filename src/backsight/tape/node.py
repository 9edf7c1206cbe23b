"""`Node` and `Edge`: the views on a graph that people hold. A `Node` is no more than a graph and an index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, overload

from backsight.tape.ops import op_name
from backsight.tape.tensors import Leaf, Output, Saved

if TYPE_CHECKING:
    import torch

    from backsight.tape.graph import Graph

Kind = Literal["op", "leaf", "custom", "compiled", "checkpoint"]


@dataclass(frozen=True)
class NodeType:
    """What all nodes of one class have in common. `source` is the `file:line` of a custom Function's class."""

    name: str
    kind: Kind
    source: str | None = None


class Edge(NamedTuple):
    """An input of a node: the node that made it, and which of that node's outputs it is."""

    node: Node
    output: int


@dataclass(frozen=True)
class Node:
    """One node of the autograd graph: the backward of one operation, or the gradient accumulation of a leaf.

    ```python
    node = backsight.graph(loss).nodes[0]
    node.op, node.shape, node.saved_bytes   # ('MseLoss', (), 640)
    [edge.node for edge in node.inputs if edge]
    ```
    """

    graph: Graph
    index: int

    @property
    def name(self) -> str:
        """Autograd's name, such as `MulBackward0`."""
        return self._type.name

    @property
    def op(self) -> str:
        """The operation's name: autograd's without `Backward0`."""
        return op_name(self.name)

    @property
    def kind(self) -> Kind:
        """`"op"` or `"leaf"`; `"custom"` for a user's Function; `"compiled"` or `"checkpoint"` for a whole region."""
        return self._type.kind

    @property
    def source(self) -> str | None:
        """`file:line` of what made this node, where a watch of lines has seen it; else `definition`."""
        return (self.graph.lines[self.index] if self.graph.lines else None) or self.definition

    @property
    def definition(self) -> str | None:
        """`file:line` of a custom Function's class; None for other nodes."""
        return self._type.source

    @property
    def _type(self) -> NodeType:
        return self.graph.types[int(self.graph.columns.type[self.index])]

    @property
    def inputs(self) -> tuple[Edge | None, ...]:
        """The node's inputs in the order of its backward's results; None for an input that needs no gradient."""
        c = self.graph.columns
        span = slice(c.start[self.index], c.start[self.index + 1])
        pairs = zip(c.inputs[span].tolist(), c.input_outputs[span].tolist(), strict=True)
        return tuple(Edge(Node(self.graph, i), output) if i >= 0 else None for i, output in pairs)

    @property
    def outputs(self) -> tuple[Output | None, ...]:
        """What the operation produced; empty if the capture was made without details."""
        return self.graph.outputs[self.index] if self.graph.outputs else ()

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of the first output that is known; None if none is."""
        first = self._first_output
        return first.shape if first else None

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of that output."""
        first = self._first_output
        return first.dtype if first else None

    @property
    def device(self) -> torch.device | None:
        """The device of that output."""
        first = self._first_output
        return first.device if first else None

    @property
    def _first_output(self) -> Output | None:
        return next((o for o in self.outputs if o is not None), None)

    @property
    def saved(self) -> tuple[Saved, ...]:
        """The tensors kept for backward; empty if there are none or the capture was made without details."""
        return self.graph.saved.get(self.index, ())

    @property
    def saved_bytes(self) -> int:
        """Bytes of the storages that this node is the first to save, leaves not counted; rows add up to the graph's."""
        return self.graph.saved_bytes_by_node.get(self.index, 0)

    @property
    def freed(self) -> bool:
        """Whether a backward has released what this node saved."""
        return any(s.state == "freed" for s in self.saved)

    @property
    def module(self) -> str | None:
        """The path of the module whose forward made this node; None where that is not known."""
        return self.graph.modules[self.index] if self.graph.modules else None

    @property
    def call(self) -> int:
        """Which of the module's calls that made nodes of this graph: 0 for the first."""
        return self.graph.calls[self.index] if self.graph.calls else 0

    @property
    def sequence(self) -> int | None:
        """The per-thread creation number; None for leaves."""
        return int(self.graph.columns.sequence[self.index]) if self.kind != "leaf" else None

    @property
    def leaf(self) -> Leaf | None:
        """The leaf, where this is a leaf's node."""
        at = self.graph.leaf_at.get(self.index)
        return None if at is None else self.graph.leaves[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and other.graph is self.graph and other.index == self.index

    def __hash__(self) -> int:
        return hash((id(self.graph), self.index))

    def __repr__(self) -> str:
        return f"<node {self.index}: {self.leaf.label if self.leaf else self.name}>"

    def __str__(self) -> str:
        return self.leaf.label if self.leaf else f"{self.name} #{self.index}"


class Nodes(Sequence[Node]):
    """All nodes of a graph in backward order: a consumer stands before what it consumes, leaves come last."""

    def __init__(self, graph: Graph):
        self._graph = graph

    def __len__(self) -> int:
        return len(self._graph)

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Node, ...]: ...
    def __getitem__(self, index: int | slice) -> Node | tuple[Node, ...]:
        span = range(len(self))[index]
        return Node(self._graph, span) if isinstance(span, int) else tuple(Node(self._graph, i) for i in span)

    def __iter__(self) -> Iterator[Node]:
        return (Node(self._graph, i) for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<{len(self)} nodes>"
