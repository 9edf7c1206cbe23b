"""torchviz's picture as statements of Graphviz's language: every node, with its colours and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from backsight.tape import CHECKED, RAW, Graph, Leaf, Node, Saved, grad_fn, identity
from backsight.tape.walk import walk

OUTPUT, BASE, LEAF, SAVED = "darkolivegreen1", "darkolivegreen3", "lightblue", "orange"
"""What torchviz fills tensors with: outputs, tensors of which outputs are views, leaves, and saved tensors."""


def statements(
    graph: Graph,
    outputs: Sequence[torch.Tensor],
    given: Mapping[int, str],
    attribute_room: int,
    *,
    show_saved: bool,
) -> list[str]:
    """Return the nodes and edges of torchviz's picture, a statement each.

    Args:
        graph: the graph behind `outputs`.
        outputs: the tensors that are drawn as such.
        given: names of tensors by identity.
        attribute_room: how many characters of what a node has saved to show below its name; 0 for no such lines.
        show_saved: show the saved tensors of all nodes, not only those of custom Functions.
    """
    attributes = _attributes(graph, outputs) if attribute_room else {}
    places = _Places(given, {id(t): f"leaf{leaf.index}" for leaf in graph.leaves if (t := leaf.tensor()) is not None})
    body = []
    for node in graph.nodes:
        label = _with_attributes(node.name, attributes.get(node.index, {}), attribute_room)
        body.append(_node(f"n{node.index}", label))
        if node.leaf is not None:
            body += _leaf(node.leaf)
        body += [_edge(f"n{edge.node.index}", f"n{node.index}") for edge in node.inputs if edge is not None]
        body += _saved(node, places, show_saved=show_saved)
    position = {its: i for i, (its, _) in enumerate(graph.identities)}
    for tensor in outputs:
        body += _output(tensor, places, position)
    return body


class _Places:
    """Which node of the picture shows a tensor; a tensor that is an object of the program's is shown once."""

    def __init__(self, given: Mapping[int, str], leaves: Mapping[int, str]):
        self.given = given
        self._of = dict(leaves)
        self._count = 0

    def of(self, tensor: torch.Tensor | None) -> tuple[str, bool]:
        """Return the name of the node, and whether it is new. None is a tensor that no one else can hold."""
        if tensor is not None and id(tensor) in self._of:
            return self._of[id(tensor)], False
        self._count += 1
        place = f"t{self._count}"
        if tensor is not None:
            self._of[id(tensor)] = place
        return place, True


def _leaf(leaf: Leaf) -> Iterator[str]:
    yield _node(f"leaf{leaf.index}", _tensor_label(leaf.name, leaf.shape), LEAF)
    yield _edge(f"leaf{leaf.index}", f"n{leaf.node}")


def _saved(node: Node, places: _Places, *, show_saved: bool) -> Iterator[str]:
    """Yield the saved tensors of a node, with lines that have no arrow."""
    for saved in node.saved if show_saved or node.kind != "op" else ():
        custom = saved.name.startswith("saved_tensors")
        if saved.name.startswith("ctx.") or not (custom or show_saved):
            continue
        tensor = saved.tensor()
        place, new = places.of(tensor if tensor is not None and tensor.is_leaf else None)
        if new:
            name = places.given.get(id(tensor), "") if custom else saved.name
            yield _node(place, _saved_label(saved, name), SAVED)
        yield _edge(place, f"n{node.index}", "dir=none") if custom else _edge(f"n{node.index}", place, "dir=none")


def _saved_label(saved: Saved, name: str) -> str:
    if saved.shape is None:
        return f"{name or saved.name}\n {'packed' if saved.state == 'hooked' else saved.state}"
    return _tensor_label(name, saved.shape)


def _output(tensor: torch.Tensor, places: _Places, position: Mapping[int, int]) -> Iterator[str]:
    """Yield an output, and the tensors of which it is a view."""
    fill: str = OUTPUT
    place, new = places.of(tensor)
    while new:
        yield _node(place, _tensor_label(places.given.get(id(tensor), ""), tuple(tensor.shape)), fill)
        made_by = grad_fn(tensor)
        if made_by is not None and identity(made_by) in position:
            yield _edge(f"n{position[identity(made_by)]}", place)
        if not tensor._is_view() or tensor._base is None:
            return
        tensor, view, fill = tensor._base, place, BASE
        place, new = places.of(tensor)
        yield _edge(place, view, "style=dotted")


def _attributes(graph: Graph, outputs: Sequence[torch.Tensor]) -> dict[int, dict[str, str]]:
    """Return what each node has saved, in words, by the index of the node."""
    position = {its: i for i, (its, _) in enumerate(graph.identities)}
    live = walk([node for tensor in outputs if (node := grad_fn(tensor)) is not None])
    fields: dict[type, list[str]] = {}
    out = {}
    for node in live.nodes:
        kind = type(node)
        if kind not in fields:
            fields[kind] = [name for name in dir(kind) if name.startswith(CHECKED)]
        if fields[kind]:
            at = position[identity(node)]
            out[at] = _words(node, fields[kind], graph.nodes[at].saved)
    return out


def _words(live: Any, fields: Sequence[str], saved: Sequence[Saved]) -> dict[str, str]:
    """Return what a live node has saved, in words, by name. Tensors are not unpacked for it."""
    tensors = {s.name.partition("[")[0]: "[saved tensors]" if "[" in s.name else "[saved tensor]" for s in saved}
    names = [field.removeprefix(CHECKED) for field in fields]
    return {
        name: tensors.get(name, "None") if hasattr(type(live), RAW + name) else str(getattr(live, CHECKED + name))
        for name in names
    }


def _with_attributes(name: str, attributes: Mapping[str, str], room: int) -> str:
    """Return a node's label as torchviz writes it: the name, a rule, and a line for each attribute."""
    if not attributes:
        return name
    left = max(map(len, attributes))
    right = min(max(map(len, attributes.values())), room)
    lines = [f"{key:<{left}}: {_cut(value, right):>{right}}" for key, value in attributes.items()]
    return "\n".join([name, "-" * max(left + right + 2, len(name)), *lines])


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 3]}..."


def _tensor_label(name: str, shape: Sequence[int]) -> str:
    return f"{name}\n ({', '.join(map(str, shape))})"


def _node(place: str, label: str, fill: str = "") -> str:
    return f"\t{place} [label={quoted(label)}{f' fillcolor={fill}' if fill else ''}]"


def _edge(a: str, b: str, look: str = "") -> str:
    return f"\t{a} -> {b}{f' [{look}]' if look else ''}"


def quoted(text: str) -> str:
    """Return `text` as a string of Graphviz's language, which shows it as it is."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n").replace("\0", "")
    return f'"{escaped}"'
