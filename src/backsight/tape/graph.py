"""The autograd graph as plain data.

The graph is stored in columns, because a million nodes as a million objects cost seconds; a `Node` is a graph and an
index. Nothing here keeps a tensor or an autograd node alive, and everything pickles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from backsight.tape.drawable import Drawable
from backsight.tape.node import Edge, Node, Nodes, NodeType
from backsight.tape.ops import VIEWS, op_name
from backsight.tape.tensors import Leaf, Output, Saved

if TYPE_CHECKING:
    from backsight.tape.queries import Place


@dataclass(frozen=True, eq=False)
class Columns:
    """The structure of a graph, a row a node in backward order.

    The inputs of node `i` are `inputs[start[i]:start[i + 1]]`, -1 for one that needs no gradient; `input_outputs` says
    which output of that node each is. `ids` are numbers that no other living node has: with `sequence` they tell, while
    a node lives, whether two graphs contain the same one.
    """

    type: NDArray[np.int32]
    start: NDArray[np.int64]
    inputs: NDArray[np.int64]
    input_outputs: NDArray[np.int64]
    sequence: NDArray[np.uint64]
    ids: NDArray[np.uint64]


OUTSIDE = "(outside)"
"""The module of a node that was made while no module ran, where calls were logged."""

Cut = tuple[str, str, str]
"""What keeps a gradient from an operand ("detach", "no_grad", ...), how the program wrote that, and `file:line`."""


_POOLS = {
    "AvgPool2D": "avg_pool1d",
    "MaxPool2DWithIndices": "max_pool1d",
    "AdaptiveAvgPool2D": "adaptive_avg_pool1d",
    "AdaptiveMaxPool2D": "adaptive_max_pool1d",
}
"""What pools in one dimension, by autograd's name of the pooling in two.

Source: aten/src/ATen/native/Pool.cpp, Pooling.cpp.
"""

_OF_MODULES = ("parameter", "buffer")


def _before(leaf: Leaf) -> str:
    """Return what stands before the path of a leaf within its model: `net` in `net.body.0.weight`."""
    own = ".".join(filter(None, (leaf.module, leaf.name.rpartition(".")[2])))
    return leaf.name.removesuffix(f".{own}") if leaf.name.endswith(f".{own}") else ""


@dataclass(frozen=True, repr=False, eq=False)
class Graph(Drawable):
    """A snapshot of an autograd graph. Make one with `backsight.graph(loss)`; `print` it to see it.

    ```python
    g = backsight.graph(loss)
    print(g)                            # a row per operation, lanes are live tensors
    g.leaves[0].name, g.saved_bytes
    g.path("model.0.weight", "loss")    # the nodes between them
    ```

    It is read by its properties: `nodes`, `roots`, `leaves`, `edges`. The other fields are what lies behind these:
    `types`, `outputs`, `saved` (by node), and `modules`, `calls` and `around` (empty where not known): the path of the
    module that made a node, which of its calls that was, and all calls around it, as (path, number in the log);
    `lines`, the `file:line` of what made each node; `classes`, the name of each module's class by its path; and
    `given`, by its storage, the name of a tensor of the model that needs no gradient, and whether it is a parameter;
    `cuts`, by node, where its operands were detached: how, the operand as the program wrote it, and `file:line`;
    `code`, by `file:line`, the text of that line as it was then.
    """

    columns: Columns = field(repr=False)
    types: tuple[NodeType, ...]
    root_edges: tuple[tuple[int, int], ...]
    leaves: tuple[Leaf, ...]
    outputs: tuple[tuple[Output | None, ...], ...] = ()
    saved: dict[int, tuple[Saved, ...]] = field(default_factory=dict)
    modules: tuple[str | None, ...] = ()
    calls: tuple[int, ...] = ()
    around: tuple[tuple[tuple[str, int], ...], ...] = ()
    root_names: tuple[str, ...] = ()
    lines: tuple[str | None, ...] = ()
    classes: dict[str, str] = field(default_factory=dict)
    given: dict[int, tuple[str, bool]] = field(default_factory=dict)
    cuts: dict[int, tuple[Cut, ...]] = field(default_factory=dict)
    code: dict[str, str] = field(default_factory=dict)

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

    @cached_property
    def written(self) -> dict[int, str]:
        """What the program wrote for a node, by its index, where autograd calls it otherwise: the class of a module
        that holds no leaf and made nothing else (`Dropout` for `Mul`), and `avg_pool1d` for what runs in two
        dimensions."""
        around = {path.rpartition(".")[0] for path in self.classes} | {leaf.module for leaf in self.leaves}
        made: dict[tuple[str, int], list[int]] = {}
        types, is_view = self.columns.type.tolist(), [op_name(each.name) in VIEWS for each in self.types]
        for i, path in enumerate(self.modules):
            if path in self.classes and path not in around and not is_view[types[i]]:
                made.setdefault((path, self.calls[i] if self.calls else 0), []).append(i)
        alone = ((nodes[0], path) for (path, _), nodes in made.items() if len(nodes) == 1)
        classes = {i: self.classes[path] for i, path in alone if self.types[types[i]].kind == "op"}
        return {**self._pooled(), **classes}

    def _pooled(self) -> dict[int, str]:
        """Return what pools in one dimension: PyTorch gives the input another one and pools in two."""
        pools = {k: name for k, kind in enumerate(self.types) if (name := _POOLS.get(op_name(kind.name)))}
        types, start, inputs = self.columns.type, self.columns.start, self.columns.inputs
        found = np.flatnonzero(np.isin(types, list(pools))).tolist() if pools else []
        sources = ((i, inputs[start[i] : start[i + 1]].tolist()) for i in found)
        return {
            i: pools[int(types[i])]
            for i, (source, *_) in sources
            if source >= 0 and op_name(self.types[types[source]].name) == "Unsqueeze"
        }

    @cached_property
    def model(self) -> str:
        """What the program calls the only model, which paths of modules leave out; empty where it is not known."""
        found = {_before(leaf) for leaf in self.leaves if leaf.module is not None and leaf.kind in _OF_MODULES}
        return found.pop() if len(found) == 1 else ""

    @property
    def identities(self) -> Iterator[tuple[int, int]]:
        """What tells, while the nodes live, whether two graphs contain the same one: two numbers."""
        return zip(self.columns.ids.tolist(), self.columns.sequence.tolist(), strict=True)

    def __len__(self) -> int:
        return len(self.columns.type)

    def called(self, module: str) -> str:
        """Return the path of a module as people read it, with the variable of the model: `net.body.0`."""
        return module if module == OUTSIDE else ".".join(filter(None, (self.model, module)))

    def path(self, a: Place, b: Place) -> tuple[Node, ...]:
        """Return the nodes of a shortest path from `a` to `b`, both included; empty if there is none.

        ```python
        g.path(loss, "model.0.weight")      # (<node 0: MseLossBackward0>, ..., <node 9: model.0.weight>)
        ```

        Args:
            a: a place in the graph: a live tensor, a leaf or node of this graph, the name of a leaf, a root or a
                node, or the index of a node.
            b: another. Either may come first.

        Raises:
            NotInGraph: if the graph does not contain a place, or if a name fits several nodes.
            TypeError: if a place is none of these things.
        """
        from backsight.tape import queries

        return queries.path(self, a, b)

    def between(self, a: Place, b: Place) -> tuple[Node, ...]:
        """Return every node that lies on some path between `a` and `b`, in backward order; empty if there is none.

        Places are given, and refused, as in `path`.
        """
        from backsight.tape import queries

        return queries.between(self, a, b)

    def count_paths(self, a: Place, b: Place) -> int:
        """Return how many different paths join `a` and `b`, exactly, however many there are.

        ```python
        g.count_paths(loss, x)      # 262144: in a network of 18 residual blocks, two ways past each
        ```

        Places are given, and refused, as in `path`.
        """
        from backsight.tape import queries

        return queries.count_paths(self, a, b)

    def shared(self, other: Graph) -> tuple[Node, ...]:
        """Return this graph's operations that `other` contains too, in backward order.

        ```python
        backsight.graph(loss_g).shared(backsight.graph(loss_d))     # what both losses go back through
        ```

        Both must have been captured in one process, while the operations of both were alive.

        Raises:
            TypeError: if `other` is not a Graph.
        """
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
        from backsight.tape.text import printed

        return printed(self)

    def __repr__(self) -> str:
        return f"<Graph: {len(self)} nodes, {len(self.leaves)} leaves>"
