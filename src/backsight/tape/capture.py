"""Capture: from live tensors to a `Graph`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from types import MemberDescriptorType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch.autograd.graph import GradientEdge, get_gradient_edge

from backsight.tape._torch import forward_class, identity, input_metadata, is_parameter, no_torch_function
from backsight.tape.errors import NothingToCapture
from backsight.tape.graph import Columns, Graph
from backsight.tape.lines import with_lines
from backsight.tape.modules import Models, with_models
from backsight.tape.node import Kind, NodeType
from backsight.tape.saved import memory, saved_by
from backsight.tape.tensors import Leaf, Output, Saved, ref_to
from backsight.tape.walk import Walk, gc_paused, walk


def capture(
    *roots: Any, model: Models = None, details: bool = True, finite: bool = False, most: int | None = None
) -> Graph:
    """Capture the graph behind `roots` without naming anything; `backsight.graph` also names.

    ```python
    g = capture(loss)
    g = capture(loss, details=False)    # structure and leaves only: a fifth of the time
    ```

    Args:
        roots: tensors, `GradientEdge`s, or any nest of tuples, lists, dicts and dataclasses of them (model outputs).
        model: a module, or modules by name, whose parameters name leaves and whose paths are given to nodes.
        details: also read each node's shapes and saved tensors.
        finite: also look whether saved values are finite, which reads all of their memory.
        most: give up at more nodes than this.

    Raises:
        TooManyNodes: if there are more than `most` nodes.
        NothingToCapture: if no root has a graph. The message says what came instead, and what to do.
    """
    with no_torch_function(), gc_paused():
        graph = _captured(root_edges(roots), details, finite, most)
    return with_models(with_lines(graph), model)


def _captured(edges: Sequence[tuple[Any, int]], details: bool, finite: bool, most: int | None) -> Graph:
    live = walk([node for node, _ in edges], most)
    type_index, types = _types(live.nodes)
    leaves = _leaves(live, [i for i, t in enumerate(type_index) if types[t].kind == "leaf"])
    columns = Columns(
        np.array(type_index, np.int32),
        live.start,
        live.inputs,
        live.outputs,
        live.sequence,
        np.array(list(map(identity, live.nodes)), np.uint64),
    )
    wanted = {node for node, _ in edges}
    position = {node: i for i, node in enumerate(live.nodes) if node in wanted}
    return Graph(
        columns=columns,
        types=types,
        root_edges=tuple((position[node], output) for node, output in edges),
        leaves=leaves,
        outputs=_outputs(live.nodes) if details else (),
        saved=_saved(live.nodes, type_index, types, finite) if details else {},
        root_names=("",) * len(edges),
    )


def root_edges(roots: Sequence[Any]) -> list[tuple[Any, int]]:
    """Return (live node, output number) of every tensor in `roots` that has a graph."""
    flat = list(tensors_in(roots))
    edges = []
    for x in flat:
        if isinstance(x, GradientEdge):
            edges.append((x.node, x.output_nr))
        elif x.requires_grad:
            edge = get_gradient_edge(x)
            edges.append((edge.node, edge.output_nr))
    if not edges:
        raise NothingToCapture.because(roots, flat)
    return edges


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield the tensors and edges in nested containers, each once, in order. Nothing of the user's is called."""
    stack: list[Any] = [value]
    seen: set[int] = set()
    while stack:
        x = stack.pop()
        kind = type(x)
        if id(x) in seen:
            continue
        seen.add(id(x))
        if issubclass(kind, (torch.Tensor, GradientEdge)):
            yield x
        elif issubclass(kind, dict):
            stack += reversed(list(dict.values(x)))
        elif issubclass(kind, tuple):
            stack += reversed(list(tuple.__iter__(x)))
        elif issubclass(kind, list):
            stack += reversed(list(list.__iter__(x)))
        elif is_dataclass(kind):
            stack += reversed([_field(x, f.name) for f in fields(kind)])


def _field(x: Any, name: str) -> Any:
    """Return a field of a dataclass instance, with or without slots, without running a property."""
    value = inspect.getattr_static(x, name, None)
    return value.__get__(x) if isinstance(value, MemberDescriptorType) else value


def _types(nodes: list[Any]) -> tuple[list[int], tuple[NodeType, ...]]:
    """Return the type of each node as a position in the returned tuple of types."""
    index: dict[NodeType, int] = {}
    by_class: dict[type, int] = {}
    out = []
    for node in nodes:
        cls = type(node)
        at = by_class.get(cls)
        if at is None:
            at = index.setdefault(_type(cls, node), len(index))
            if cls.__name__ != "CppFunction":  # the one class that stands for several kinds of node
                by_class[cls] = at
        out.append(at)
    return out, tuple(index)


def _type(cls: type, node: Any) -> NodeType:
    if cls.__name__ == "AccumulateGrad":
        return NodeType("AccumulateGrad", "leaf")
    forward = forward_class(cls)
    if forward is None:
        return NodeType(node.name() if cls.__name__ == "CppFunction" else cls.__name__, "op")
    return NodeType(cls.__name__, _custom_kind(forward), _source(forward))


def _custom_kind(forward: type) -> Kind:
    """Tell PyTorch's own Functions that stand for a whole region from those that people write."""
    if forward.__module__.startswith("torch._functorch"):
        return "compiled"
    if forward.__module__.startswith("torch.utils.checkpoint"):
        return "checkpoint"
    return "custom"


_source_by_class: WeakKeyDictionary[type, str | None] = WeakKeyDictionary()


def _source(cls: type) -> str | None:
    """Return `file:line` of a class statement, as far as the source can be found; looked up once a class."""
    if cls not in _source_by_class:
        try:
            _source_by_class[cls] = f"{inspect.getsourcefile(cls)}:{inspect.getsourcelines(cls)[1]}"
        except (OSError, TypeError):
            _source_by_class[cls] = None
    return _source_by_class[cls]


def _leaves(live: Walk, at: list[int]) -> tuple[Leaf, ...]:
    """Describe the leaves whose nodes stand at `at`, in the order in which the forward pass first used them."""
    used = live.inputs >= 0
    consumer = np.repeat(np.arange(len(live.nodes)), np.diff(live.start))[used]
    first_use = np.full(len(live.nodes), -1)
    np.maximum.at(first_use, live.inputs[used], consumer)  # the last consumer in backward order is the first in forward
    uses = np.bincount(live.inputs[used], minlength=len(live.nodes))
    ordered = sorted(at, key=lambda i: -first_use[i])
    return tuple(_leaf(k, i, live.nodes[i].variable, int(uses[i])) for k, i in enumerate(ordered))


def _leaf(index: int, node: int, tensor: torch.Tensor, uses: int) -> Leaf:
    return Leaf(
        index,
        node,
        _shape(tensor),
        tensor.dtype,
        tensor.device,
        kind="parameter" if is_parameter(tensor) else "unknown",
        uses=uses,
        storage=memory(tensor)[0],
        ref=ref_to(tensor),
    )


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the shape, with -1 in place of what differs between the parts of a nested tensor."""
    if tensor.is_nested and tensor.layout == torch.strided:
        return tensor.size(0), *(-1,) * (tensor.dim() - 1)
    return tuple(tensor.shape)


def _outputs(nodes: list[Any]) -> tuple[tuple[Output | None, ...], ...]:
    same: dict[tuple[Output | None, ...], tuple[Output | None, ...]] = {}
    out = []
    for node in nodes:
        described = tuple(map(_output, input_metadata(node)))
        out.append(same.setdefault(described, described))
    return tuple(out)


def _output(metadata: Any) -> Output | None:
    try:
        return Output(tuple(metadata.shape), metadata.dtype, metadata.device)
    except RuntimeError:  # nested tensors have no shape; an output that was never used has nothing
        return None


def _saved(
    nodes: list[Any], type_index: list[int], types: tuple[NodeType, ...], finite: bool
) -> dict[int, tuple[Saved, ...]]:
    out = {}
    for i, node in enumerate(nodes):
        if types[type_index[i]].kind != "leaf":
            saved = saved_by(node, finite=finite)
            if saved:
                out[i] = saved
    return out
