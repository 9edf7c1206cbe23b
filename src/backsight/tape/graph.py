"""The autograd graph as plain data: `Graph` and the views on it that people hold (`Node`, `Edge`, `Leaf`, `Saved`).

The graph is stored in columns, because a million nodes as a million objects cost seconds; a `Node` is a graph and an
index. Nothing here keeps a tensor or an autograd node alive, and everything pickles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from backsight.tape.tensors import Leaf, Output, Saved

if TYPE_CHECKING:
    import torch

    from backsight.tape.queries import Place

Kind = Literal["op", "leaf", "custom", "compiled", "checkpoint"]


class Edge(NamedTuple):
    """An input of a node: the node that made it, and which of that node's outputs it is."""

    node: Node
    output: int


@dataclass(frozen=True)
class Node:
    """One node of the autograd graph: the backward of one operation, or the gradient accumulation of a leaf."""

    graph: Graph = field(repr=False)
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
        return self._type.kind

    @property
    def source(self) -> str | None:
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
        first = self._first_output
        return first.shape if first else None

    @property
    def dtype(self) -> torch.dtype | None:
        first = self._first_output
        return first.dtype if first else None

    @property
    def device(self) -> torch.device | None:
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
        """Which call of the module it was: 0 for the first."""
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

    def __str__(self) -> str:
        return self.leaf.label if self.leaf else f"{self.name} #{self.index}"


def op_name(name: str) -> str:
    """Return `Mul` for `MulBackward0`, and other names as they are."""
    head, _, tail = name.rpartition("Backward")
    return head if head and (not tail or tail.isdigit()) else name


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


@dataclass(frozen=True)
class NodeType:
    """What all nodes of one class have in common. `source` is the `file:line` of a custom Function's class."""

    name: str
    kind: Kind
    source: str | None = None


@dataclass(frozen=True, eq=False)
class Columns:
    """The structure of a graph, a row a node in backward order.

    The inputs of node `i` are `inputs[start[i]:start[i + 1]]`, -1 for one that needs no gradient; `input_outputs` says
    which output of that node each is. `ids` are the nodes' addresses: with `sequence` they tell, while a node lives,
    whether two graphs contain the same one.
    """

    type: NDArray[np.int32]
    start: NDArray[np.int64]
    inputs: NDArray[np.int64]
    input_outputs: NDArray[np.int64]
    sequence: NDArray[np.uint64]
    ids: NDArray[np.uint64]


@dataclass(frozen=True, repr=False, eq=False)
class Graph:
    """A snapshot of an autograd graph. Make one with `backsight.graph(loss)`; `print` it to see it.

    ```python
    g = backsight.graph(loss)
    print(g)                            # a row per operation, lanes are live tensors
    g.leaves[0].name, g.saved_bytes
    g.path("model.0.weight", "loss")    # the nodes between them
    ```
    """

    columns: Columns = field(repr=False)
    types: tuple[NodeType, ...]
    root_edges: tuple[tuple[int, int], ...]
    leaves: tuple[Leaf, ...]
    outputs: tuple[tuple[Output | None, ...], ...] = ()
    saved: dict[int, tuple[Saved, ...]] = field(default_factory=dict)
    modules: tuple[str | None, ...] = ()
    calls: tuple[int, ...] = ()
    root_names: tuple[str, ...] = ()

    @property
    def nodes(self) -> Nodes:
        """All nodes in backward order, each once."""
        return Nodes(self)

    @property
    def roots(self) -> tuple[Node, ...]:
        """The nodes at which the capture began, in the order in which they were given."""
        return tuple(Node(self, i) for i, _ in self.root_edges)

    @property
    def edges(self) -> Iterator[tuple[Node, Edge]]:
        """Every edge as (consumer, input)."""
        return ((node, edge) for node in self.nodes for edge in node.inputs if edge is not None)

    @property
    def saved_bytes(self) -> int:
        """Bytes that the graph keeps for backward: unique storages, without those of its own leaves."""
        return sum(self.saved_bytes_by_node.values())

    @cached_property
    def saved_bytes_by_node(self) -> dict[int, int]:
        """Bytes of unique storages by the first node, in forward order, that saves them; leaves not counted."""
        storages = {leaf.storage for leaf in self.leaves}
        by_node: dict[int, int] = {}
        for i in sorted(self.saved, reverse=True):
            for s in self.saved[i]:
                if s.storage is not None and s.storage not in storages:
                    storages.add(s.storage)
                    by_node[i] = by_node.get(i, 0) + s.storage_bytes
        return by_node

    @cached_property
    def leaf_at(self) -> dict[int, int]:
        """Position in `leaves` by the index of the leaf's node."""
        return {leaf.node: leaf.index for leaf in self.leaves}

    @property
    def identities(self) -> Iterator[tuple[int, int]]:
        """What tells, while the nodes live, whether two graphs contain the same one: address and sequence number."""
        return zip(self.columns.ids.tolist(), self.columns.sequence.tolist(), strict=True)

    def __len__(self) -> int:
        return len(self.columns.type)

    def path(self, a: Place, b: Place) -> tuple[Node, ...]:
        """Return the nodes of a shortest path from `a` to `b`, both included; empty if there is none."""
        from backsight.tape import queries

        return queries.path(self, a, b)

    def between(self, a: Place, b: Place) -> tuple[Node, ...]:
        """Return every node that lies on some path between `a` and `b`, in backward order."""
        from backsight.tape import queries

        return queries.between(self, a, b)

    def count_paths(self, a: Place, b: Place) -> int:
        """Return how many different paths join `a` and `b`, exactly, however many there are."""
        from backsight.tape import queries

        return queries.count_paths(self, a, b)

    def shared(self, other: Graph) -> tuple[Node, ...]:
        """Return this graph's operations that `other` contains too, in backward order."""
        from backsight.tape import queries

        return queries.shared(self, other)

    def text(self, *, width: int | None = None, color: bool = False, views: bool = False, fold: bool = True) -> str:
        """Return the picture that `print` shows: `git log --graph` for autograd.

        `width` is in columns (the terminal's by default); `views=True` shows views and other bookkeeping operations;
        `fold=False` shows every repetition. Never coloured unless asked.
        """
        from backsight.tape.text import render

        return render(self, width=width, color=color, views=views, fold=fold)

    def renamed(self, leaves: Sequence[Leaf], root_names: Sequence[str]) -> Graph:
        """Return this graph with other descriptions of its leaves and other names of its roots."""
        return replace(self, leaves=tuple(leaves), root_names=tuple(root_names))

    def __str__(self) -> str:
        from backsight.tape.text import for_stdout

        return for_stdout(self)

    def __repr__(self) -> str:
        return f"<Graph: {len(self)} nodes, {len(self.leaves)} leaves>"
