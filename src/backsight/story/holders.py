"""Which variables hold results that were computed in a graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any, TypeVar

import torch

from backsight.naming import Name, requires_grad, search
from backsight.naming.plain import namespace
from backsight.story.failure import is_users
from backsight.story.memory import is_tensor
from backsight.tape import Graph, Leaf, Node, capture, identity, no_torch_function, sequence_number, tensors_in
from backsight.tape.saved import is_readable

_Kind = TypeVar("_Kind")


def made_in(graph: Graph, value: object) -> list[int]:
    """Return the nodes of `graph` that made the tensors in `value`: a tensor, or containers of tensors."""
    found = [graph_index for tensor in results_in(value) if (graph_index := node_of(graph, tensor)) is not None]
    return list(dict.fromkeys(found))


def results_in(value: object) -> list[torch.Tensor]:
    """Return the tensors in `value` that were computed with a history, not leaves."""
    with no_torch_function():
        return [t for t in tensors_in(value) if isinstance(t, torch.Tensor) and _maker(t) is not None]


def _maker(tensor: torch.Tensor) -> Any:
    """The node that made a tensor; None where autograd refuses to say: of a view, changed under another mode."""
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


def results_of_object(value: Any) -> list[torch.Tensor]:
    """Return the results in a value; of an object of the user's, those that its attributes hold."""
    if is_tensor(value) or not is_users(type(value)):
        return results_in(value)
    parts = [*tuple.__iter__(value)] if issubclass(type(value), tuple) else [*(namespace(value) or {}).values()]
    return [each for part in parts for each in results_in(part)]


def node_of(graph: Graph, tensor: torch.Tensor) -> int | None:
    """Return the index of the node that made `tensor`; None if the graph does not contain it."""
    key = identified(tensor)
    return next((index for index, its in enumerate(graph.identities) if its == key), None) if key else None


def identified(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Return what tells the node that made a tensor from all others, as `graph.identities` has it; None for a leaf."""
    with no_torch_function():
        node = _maker(tensor)
    return (identity(node), sequence_number(node)) if node is not None else None


def results_held(frames: Sequence[FrameType]) -> list[tuple[torch.Tensor, Name]]:
    """Return every live result that a variable holds, with its name; `frames` are searched first.

    What a view is of has no name of the program's, unless something else holds it.
    """
    found = search((), frames=frames, collect=(torch.Tensor,), where=requires_grad).found
    with no_torch_function():
        held = [(t, name) for t, name in found if isinstance(t, torch.Tensor) and _maker(t) is not None]
    return [(t, name) for t, name in held if not name.path.endswith("._base")]


def found_around(frames: Sequence[FrameType], kind: type[_Kind]) -> list[tuple[_Kind, str]]:
    """Return every object of a kind that the program holds, with its path; `frames` are searched first."""
    return [
        (each, name.path) for each, name in search((), frames=frames, collect=(kind,)).found if isinstance(each, kind)
    ]


def attributes_held(frames: Sequence[FrameType]) -> Iterator[tuple[torch.Tensor, str]]:
    """Yield every live result that an attribute holds, with its path: also where a variable has a shorter name for it,
    as what the method returned that has kept it.
    """
    held = results_held(frames)
    targets = [tensor for tensor, _ in held]
    names = search(targets, frames=frames, collect=(torch.Tensor,), where=requires_grad).names  # looks to the end
    for (tensor, best), others in zip(held, names, strict=True):
        paths = (each.path for each in (best, *others))
        path = next((each for each in paths if "." in each.partition("[")[0]), None)
        if path is not None:
            yield tensor, path


def structure(tensor: torch.Tensor) -> Graph:
    """Return the graph behind a result, without details."""
    with no_torch_function():
        return capture(tensor, details=False)


def needs_saved(graph: Graph, node: int) -> bool:
    """Whether a backward from `node` downwards needs saved tensors: only then can it fail because they were freed."""
    return any(i in graph.saved for i in below(graph, [node]))


def below(graph: Graph, nodes: Iterable[int], without: Collection[int] = ()) -> list[int]:
    """Return `nodes` and everything that they were computed from, as far as no node of `without` leads there."""
    start, inputs = graph.columns.start.tolist(), graph.columns.inputs.tolist()
    queue = [node for node in dict.fromkeys(nodes) if node not in without]
    seen = {*queue, *without}
    for i in queue:  # grows as we go
        for j in inputs[start[i] : start[i + 1]]:
            if j >= 0 and j not in seen:
                seen.add(j)
                queue.append(j)
    return queue


def ways_into(graph: Graph, old: Collection[int], without: Collection[int] = ()) -> list[int]:
    """Return where a backward from the roots comes to operations of `old` that need saved tensors, as far as no node of
    `without` leads there: none if it suffices to detach, or to compute anew, what those have made."""
    start, inputs = graph.columns.start.tolist(), graph.columns.inputs.tolist()
    new = below(graph, [root for root, _ in graph.root_edges], {*old, *without})
    met = {j for i in new for j in inputs[start[i] : start[i + 1]]}.intersection(old).difference(without)
    return sorted(each for each in met if needs_saved(graph, each))


def leaves_below(graph: Graph, node: int) -> list[Leaf]:
    """Return the leaves that a node was computed from."""
    inside = set(below(graph, [node]))
    return [leaf for leaf in graph.leaves if leaf.node in inside]


def given(node: Node) -> list[Node]:
    """Return the operations and leaves whose results an operation was given, of those that autograd follows."""
    return [edge.node for edge in node.inputs if edge is not None]


def users(graph: Graph) -> dict[int, list[Node]]:
    """Return the operations that were given the result of each node, by its index."""
    found: dict[int, list[Node]] = {}
    for node, edge in graph.edges:
        found.setdefault(edge.node.index, []).append(node)
    return found


def kept(node: Node, name: str) -> torch.Tensor | None:
    """Return what a node has saved under a name; None if there is no such tensor, or none whose values may be read."""
    found = next((each.tensor() for each in node.saved if each.name == name), None)
    return found if found is not None and is_readable(found) else None


def terms(graph: Graph, roots: Iterable[int], whole: Collection[int] = ()) -> list[int]:
    """Return the nodes whose results a sum adds up, as far as it is one: `a` and `b` of `(a - 2 * b).mean()`; `whole`
    are not taken apart."""
    found: list[int] = []
    queue = list(roots)
    for i in queue:  # grows as we go
        inputs = [each.index for each in given(graph.nodes[i])]
        linear = graph.nodes[i].op in _LINEAR or (graph.nodes[i].op in _SCALED and len(inputs) == 1)
        linear = linear and i not in whole
        (queue if linear else found).extend(inputs if linear else [i])
    return found


_LINEAR = frozenset({"Add", "Sub", "Neg", "Sum", "Mean", "Stack", "Select", "Unbind"})
_SCALED = frozenset({"Mul", "Div"})
"""Linear in their one operand with a graph, where there is only one."""


def border(graph: Graph, inside: set[int]) -> list[int]:
    """Return the nodes of `inside` that the rest of the graph consumes, in backward order."""
    start, inputs = graph.columns.start.tolist(), graph.columns.inputs.tolist()
    consumed = {j for i in range(len(graph)) if i not in inside for j in inputs[start[i] : start[i + 1]]}
    return sorted(consumed & inside)
