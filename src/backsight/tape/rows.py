"""The operations of a graph that a picture shows: in forward order, views hidden, leaves with what consumes them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import torch

from backsight.tape.graph import OUTSIDE, Graph
from backsight.tape.ops import VIEWS, op_name
from backsight.tape.tensors import Leaf, Output, Saved


@dataclass(frozen=True, eq=False)
class Rows:
    """The visible operations in forward order, a column each and an entry a row.

    `node` is the index in `graph.nodes`, `type` the position in `graph.types`. `inputs` holds the rows whose results a
    row consumes, in the order of its operands; `leaves` (positions in `graph.leaves`) and `chips` (how they are called
    beside the row's module) the leaves that it consumes. `state` is what is unusual about its saved tensors, in words.
    `called` is `module` as people read it, with the variable of the model; `written` has the class of a module that
    made a row alone, by row. `roots` names the rows at which the capture began, and `hidden` counts what is not shown.
    """

    node: list[int]
    type: list[int]
    shape: list[str]
    saved: list[int]
    state: list[str]
    module: list[str]
    inputs: list[tuple[int, ...]]
    leaves: list[tuple[int, ...]]
    chips: list[tuple[str, ...]]
    roots: dict[int, tuple[str, ...]]
    hidden: int
    called: list[str] = field(default_factory=list)
    written: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.node)


def visible(graph: Graph, *, views: bool = False) -> Rows:
    """Return the rows of `graph`. With `views`, also those of views and other bookkeeping.

    ```python
    rows = visible(backsight.graph(loss))
    rows.shape[-1], rows.inputs[-1]     # "scalar", (3,)
    ```
    """
    roots = {i for i, _ in graph.root_edges}
    hidden = set() if views else _hidden(graph, roots)
    is_leaf = [t.kind == "leaf" for t in graph.types]
    types: list[int] = graph.columns.type.tolist()
    shown = [i for i in range(len(types) - 1, -1, -1) if not (is_leaf[types[i]] or i in hidden) or i in roots]
    inputs, leaves = _inputs(graph, shown, hidden)
    module = _modules(graph, shown)
    row = {i: k for k, i in enumerate(shown)} if roots else {}
    return Rows(
        node=shown,
        type=[types[i] for i in shown],
        shape=_shapes(graph, shown),
        saved=list(map(graph.saved_bytes_by_node.get, shown, [0] * len(shown))),
        state=_states(graph, shown),
        module=module,
        inputs=inputs,
        leaves=leaves,
        chips=_chips(graph.leaves, leaves, module, {row[i] for i in roots if is_leaf[types[i]]}),
        roots=_root_names(graph, row),
        hidden=len(hidden),
        called=_called(graph, shown, module),
        written={k: cls for k, i in enumerate(shown) if (cls := graph.written.get(i))},
    )


def _hidden(graph: Graph, roots: set[int]) -> set[int]:
    """Return the nodes that only change how a tensor is looked at, keep nothing, and are not themselves asked for."""
    is_view = [t.kind == "op" and op_name(t.name) in VIEWS for t in graph.types]
    degree = (graph.columns.start[1:] - graph.columns.start[:-1]).tolist()
    candidates = (i for i, t in enumerate(graph.columns.type.tolist()) if is_view[t] and degree[i] == 1)
    return {i for i in candidates if i not in roots and i not in graph.saved}


def _inputs(
    graph: Graph, shown: Sequence[int], hidden: set[int]
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return, for each row, the rows and the leaves that it consumes; an edge through hidden nodes joins its ends."""
    start, inputs = graph.columns.start.tolist(), graph.columns.inputs.tolist()
    through = list(range(len(graph)))
    for i in sorted(hidden, reverse=True):  # producers have the larger index, so they are settled first
        j = inputs[start[i]]
        through[i] = through[j] if j >= 0 else -1
    through.append(-1)  # where an input of -1 looks itself up
    row = [-1] * len(graph)
    for k, i in enumerate(shown):
        row[i] = k
    rows, leaves = [], []
    for i in shown:
        sources = [through[j] for j in inputs[start[i] : start[i + 1]]]
        rows.append(tuple([row[j] for j in sources if j >= 0 and row[j] >= 0]))
        ends = [graph.leaf_at[j] for j in sources if j >= 0 and row[j] < 0]
        leaves.append(tuple(dict.fromkeys(ends)) if ends else ())
    for k, i in enumerate(shown):
        if i in graph.leaf_at:  # a leaf that is itself a root has a row of its own
            leaves[k] = (graph.leaf_at[i],)
    return rows, leaves


def _shapes(graph: Graph, shown: Sequence[int]) -> list[str]:
    if not graph.outputs:
        return [""] * len(shown)
    outputs = [graph.outputs[i] for i in shown]
    first = [next(filter(None, o), None) for o in {id(o): o for o in outputs}.values()]
    usual = _commonest(o.dtype for o in first if o), _commonest(str(o.device) for o in first if o)
    used = _used_outputs(graph)
    texts: dict[tuple[int, tuple[int, ...]], str] = {}  # by identity: equal outputs are one object in a graph
    shapes = []
    for i, o in zip(shown, outputs, strict=True):
        key = id(o), used.get(i, ()) if len(o) > 1 else ()
        if key not in texts:
            known = [o[k] for k in key[1] if k < len(o)] or o[:1]
            texts[key] = _shape([x for x in known if x is not None], *usual)
        shapes.append(texts[key])
    return shapes


def _used_outputs(graph: Graph) -> dict[int, tuple[int, ...]]:
    """Return which outputs of each node with several are consumed; the others are a by-product such as a variance."""
    several = np.array([len(o) > 1 for o in graph.outputs])
    edges = np.stack([graph.columns.inputs, graph.columns.input_outputs], 1)
    edges = np.concatenate([edges, np.array(graph.root_edges).reshape(-1, 2)])
    edges = np.unique(edges[(edges[:, 0] >= 0) & several[edges[:, 0]]], axis=0)
    used: dict[int, tuple[int, ...]] = {}
    for i, k in edges.tolist():
        used[i] = (*used.get(i, ()), k)
    return used


def _commonest(values: Iterable[object]) -> object:
    return next((value for value, _ in Counter(values).most_common(1)), None)


def _shape(known: Sequence[Output], usual_dtype: object, usual_device: object) -> str:
    """Return `2×3`, `3 of 2×3` for several outputs, and with dtype and device where they are not the usual ones."""
    if not known:
        return ""
    text = dimensions(known[0].shape)
    if len(known) > 1:
        alike = all(o.shape == known[0].shape for o in known)
        text = f"{len(known)} of {text}" if alike else f"{text}, …"
    if known[0].dtype != usual_dtype:
        text += f" {dtype_name(known[0].dtype)}"
    device = str(known[0].device)
    return text if device == usual_device else f"{text} {device}"


def dimensions(shape: Sequence[int]) -> str:
    """Return `2×3` for a shape and `scalar` for an empty one."""
    return "×".join(map(str, shape)) or "scalar"


def dtype_name(dtype: torch.dtype) -> str:
    """Return `float32` for `torch.float32`."""
    return str(dtype).removeprefix("torch.")


def _states(graph: Graph, shown: Sequence[int]) -> list[str]:
    get = graph.saved.get
    return [_state(saved) if (saved := get(i)) else "" for i in shown]


def _state(saved: tuple[Saved, ...]) -> str:
    """Return what is unusual about saved tensors, the worst first; empty where all are alive."""
    states = {s.state for s in saved}
    if "modified" in states:
        return ", ".join(f"{s.name} modified v{s.version}≠v{s.expected}" for s in saved if s.state == "modified")
    return next((state for state in ("freed", "hooked", "unread") if state in states), "")


def _modules(graph: Graph, shown: Sequence[int]) -> list[str]:
    if not graph.modules:
        return [""] * len(shown)
    modules = graph.modules
    return ["" if (path := modules[i]) is None or path == OUTSIDE else path for i in shown]


def _called(graph: Graph, shown: Sequence[int], modules: Sequence[str]) -> list[str]:
    """Return the modules as people read them. Only where calls were logged is it known what the model itself made."""
    model = graph.model
    if not model:
        return [*modules]
    own = {i for i in shown if graph.calls and graph.modules[i] == ""}
    return [f"{model}.{path}" if path else model if i in own else "" for i, path in zip(shown, modules, strict=True)]


def _chips(
    leaves: Sequence[Leaf], used: Sequence[tuple[int, ...]], modules: Sequence[str], bare: set[int]
) -> list[tuple[str, ...]]:
    """Return what to call each row's leaves; a root that is a leaf says its name already."""
    texts: dict[tuple[int, str], str] = {}
    chips = []
    for row, (indices, module) in enumerate(zip(used, modules, strict=True)):
        named = []
        for k in indices if row not in bare else ():
            if (k, module) not in texts:
                texts[k, module] = leaf_name(leaves[k], module)
            named.append(texts[k, module])
        chips.append(tuple(named))
    return chips


def leaf_name(leaf: Leaf, module: str = "") -> str:
    """Return what to call `leaf` beside `module`: `weight` for its own parameter, otherwise the full name."""
    if not leaf.name:
        return f"unnamed {dimensions(leaf.shape)}"
    name = leaf.name
    if module:
        inside = f"{leaf.module}."
        if inside.startswith(f"{module}."):  # its own, or that of a module inside whose forward was not called
            steps = inside.count(".") - module.count(".")
            name = ".".join(name.split(".")[-steps:])
        else:
            name = name.removeprefix(f"{module}.")
    return f"{name}, overwritten" if leaf.kind == "overwritten" and "overwritten" not in name else name


def _root_names(graph: Graph, row: dict[int, int]) -> dict[int, tuple[str, ...]]:
    """Return the names of the roots by row; several roots without names are told apart by number."""
    names: dict[int, list[str]] = {}
    for k, (i, _) in enumerate(graph.root_edges):
        name = graph.root_names[k] if k < len(graph.root_names) else ""
        at = graph.leaf_at.get(i)
        if not name and at is not None:
            name = leaf_name(graph.leaves[at])
        names.setdefault(row[i], []).append(name or (f"root {k}" if len(graph.root_edges) > 1 else ""))
    return {r: tuple(dict.fromkeys(n for n in several if n)) for r, several in names.items()}


_ELEMENT = re.compile(r"(.+)\[(\d+)\]")


def together(names: Iterable[str]) -> list[str]:
    """Return names, those of neighboring elements as one.

    >>> together(["output[0]", "loss", "output[2]", "output[1]", "output[4]"])
    ['output[0–2]', 'output[4]', 'loss']
    """
    found: dict[tuple[str, bool], set[int]] = {}
    for name in names:
        element = _ELEMENT.fullmatch(name)
        held = found.setdefault((element[1], True) if element else (name, False), set())
        held.update([int(element[2])] if element else ())
    return [text for (name, _), numbers in found.items() for text in _elements(name, sorted(numbers))]


def _elements(name: str, numbers: Sequence[int]) -> Iterator[str]:
    if not numbers:
        yield name
    for _, neighbors in groupby(enumerate(numbers), lambda at: at[1] - at[0]):
        ends = [number for _, number in neighbors]
        yield f"{name}[{ends[0]}–{ends[-1]}]" if len(ends) > 1 else f"{name}[{ends[0]}]"
