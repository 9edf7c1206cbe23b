"""A graph as a document: plain JSON, which says all that a picture shows, and back again.

A document may come from anywhere. What is read of it is checked, number by number, before any of it is believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, TypeVar, get_args

import numpy as np

from backsight.tape._torch import NO_SEQUENCE
from backsight.tape.graph import Columns, Cut, Graph
from backsight.tape.node import Kind, NodeType
from backsight.tape.reading import BadDocument, Part, device_of, dtype_of
from backsight.tape.rows import dtype_name
from backsight.tape.tensors import Leaf, LeafKind, Output, Saved, SavedState
from backsight.tape.walk import gc_paused

VERSION = 1

MOST_NODES = 1_000_000
"""A document of more nodes, or twenty times as many edges, is refused."""

_T = TypeVar("_T")

_loaded = count(1, 2)
"""Addresses of nodes that were read: odd, as no live one is, and never the same twice."""


def document(graph: Graph) -> dict[str, Any]:
    """Return a graph as plain JSON: lists, dicts, text and whole numbers. Live tensors and addresses are not in it.

    ```python
    text = json.dumps(document(backsight.graph(loss)))
    graph_of(json.loads(text)).draw("loss.svg")
    ```
    """
    with gc_paused():
        return _document(graph)


def _document(graph: Graph) -> dict[str, Any]:
    columns, storages, outputs, paths, calls = graph.columns, _Numbers(), _Numbers(), _Numbers(), _Numbers()
    lines = _Numbers()
    sequence = columns.sequence.tolist()
    return {
        "version": VERSION,
        "types": [[each.name, each.kind, each.source] for each in graph.types],
        "type": columns.type.tolist(),
        "inputs_of": np.diff(columns.start).tolist(),
        "inputs": columns.inputs.tolist(),
        "input_outputs": columns.input_outputs.tolist(),
        "sequence": [-1 if number == NO_SEQUENCE else number for number in sequence],
        "roots": [[*edge, name] for edge, name in zip(graph.root_edges, graph.root_names, strict=True)],
        "leaves": [_leaf(leaf, storages) for leaf in graph.leaves],
        "made": [outputs.of(made) for made in graph.outputs],
        "outputs": [[_output(each) for each in made] for made in outputs.met],
        "saved": [[node, [_saved(each, storages) for each in held]] for node, held in graph.saved.items()],
        "module": [-1 if path is None else paths.of(path) for path in graph.modules],
        "modules": paths.met,
        "call": list(graph.calls),
        "around": [calls.of(around) for around in graph.around],
        "calls": [[[path, number] for path, number in around] for around in calls.met],
        "classes": [list(pair) for pair in graph.classes.items()],
        "given": [[storages.of(storage), *held] for storage, held in graph.given.items()],
        "line": [-1 if line is None else lines.of(line) for line in graph.lines],
        "lines": lines.met,
        "code": [graph.code.get(line, "") for line in lines.met],
        "cuts": [[node, [list(cut) for cut in cuts]] for node, cuts in graph.cuts.items()],
    }


def graph_of(held: Any) -> Graph:
    """Return the graph that a document is of.

    Raises:
        BadDocument: if it is of none; the message says where it is wrong.
    """
    part = Part.of(held)
    if part.number("version", 0) != VERSION:
        raise BadDocument(f"its version is {part.number('version', 0)}, but this backsight reads {VERSION}")
    types = tuple(_read_type(each) for each in part.parts("types"))
    columns = _read_columns(part, types)
    size = len(columns.type)
    outputs = [tuple(_read_output(each) for each in made.items()) for made in part.parts("outputs")]
    paths = part.texts("modules")
    calls = [tuple((each.at(0, str), each.whole(1)) for each in around.subparts()) for around in part.parts("calls")]
    roots = [(each.whole(0, size), each.whole(1), each.at(2, str)) for each in part.parts("roots")]
    if not roots:
        raise BadDocument("it has no root")
    lines = part.texts("lines") if "lines" in part.held else []
    code = part.texts("code") if "code" in part.held else []
    line = part.numbers("line", low=-1, high=len(lines), count=(0, size)).tolist() if lines else []
    module = part.numbers("module", low=-1, high=len(paths), count=(0, size)).tolist()
    return Graph(
        columns=columns,
        types=types,
        root_edges=tuple((node, output) for node, output, _ in roots),
        leaves=_read_leaves(part, columns, types),
        outputs=_looked_up(part, "made", outputs, size),
        saved={each.whole(0, size): tuple(map(_read_saved, each.part(1).subparts())) for each in part.parts("saved")},
        modules=tuple(None if number < 0 else paths[number] for number in module),
        calls=tuple(part.numbers("call", low=0, count=(0, size)).tolist()),
        around=_looked_up(part, "around", calls, size),
        root_names=tuple(name for _, _, name in roots),
        classes={each.at(0, str): each.at(1, str) for each in _later(part, "classes")},
        given={each.whole(0): (each.at(1, str), each.at(2, bool)) for each in _later(part, "given")},
        lines=tuple(None if number < 0 else lines[number] for number in line),
        code={line: text for line, text in zip(lines, code, strict=False) if text},
        cuts={each.whole(0, size): tuple(map(_read_cut, each.part(1).subparts())) for each in _later(part, "cuts")},
    )


def _read_cut(part: Part) -> Cut:
    return part.at(0, str), part.at(1, str), part.at(2, str)


def _later(part: Part, key: str) -> list[Part]:
    """Return the lists in a list that documents of before 0.1 do not have."""
    return part.parts(key) if key in part.held else []


class _Numbers:
    """Numbers things as they are met, so that each is written once."""

    def __init__(self) -> None:
        self.met: list[Any] = []
        self._number: dict[Any, int] = {}

    def of(self, thing: Any) -> int:
        number = self._number.get(thing)
        if number is None:
            number = self._number[thing] = len(self.met)
            self.met.append(thing)
        return number


def _leaf(leaf: Leaf, storages: _Numbers) -> dict[str, Any]:
    return {
        "node": leaf.node,
        "shape": _shape(leaf.shape),
        "dtype": dtype_name(leaf.dtype),
        "device": str(leaf.device),
        "kind": leaf.kind,
        "name": leaf.name,
        "names": list(leaf.names),
        "owner": leaf.owner,
        "module": leaf.module,
        "near": leaf.near,
        "uses": leaf.uses,
        "storage": _storage(leaf.storage, storages),
    }


def _output(output: Output | None) -> list[Any] | None:
    return None if output is None else [_shape(output.shape), dtype_name(output.dtype), str(output.device)]


def _saved(saved: Saved, storages: _Numbers) -> list[Any]:
    return [
        saved.name,
        saved.state,
        None if saved.shape is None else _shape(saved.shape),
        None if saved.dtype is None else dtype_name(saved.dtype),
        saved.bytes,
        _storage(saved.storage, storages),
        saved.storage_bytes,
        saved.version,
        saved.expected,
        saved.finite,
        saved.requires_grad,
        saved.is_leaf,
    ]


def _shape(shape: Sequence[Any]) -> list[int]:
    """Return a shape, with -1 for sizes that are symbols, as those of jagged tensors."""
    return [size if type(size) is int else -1 for size in shape]


def _storage(address: int | None, storages: _Numbers) -> int | None:
    """Return which storage this is among those met, rather than where in memory it lay."""
    return None if address is None else storages.of(address)


def _read_type(part: Part) -> NodeType:
    return NodeType(part.at(0, str), part.word(1, get_args(Kind)), part.maybe(2, str))


def _read_columns(part: Part, types: Sequence[NodeType]) -> Columns:
    kind = part.numbers("type", low=0, high=len(types), count=range(MOST_NODES + 1))
    size = len(kind)
    degree = part.numbers("inputs_of", low=0, high=20 * MOST_NODES, count=(size,))
    start = np.concatenate([[0], np.cumsum(degree)]).astype(np.int64)
    if start[-1] > 20 * MOST_NODES:
        raise BadDocument(f"it has {int(start[-1]):,} edges")
    inputs = part.numbers("inputs", low=-1, high=size, count=(int(start[-1]),))
    outputs = part.numbers("input_outputs", low=0, count=(len(inputs),))
    consumer = np.repeat(np.arange(size), degree)
    if np.any((inputs >= 0) & (inputs <= consumer)):
        raise BadDocument("inputs holds a node that does not stand after the one that consumes it")
    sequence = part.numbers("sequence", low=-1, count=(size,))
    ids = np.fromiter(_loaded, np.uint64, size)
    return Columns(kind.astype(np.int32), start, inputs, outputs, sequence.astype(np.uint64), ids)


def _read_leaves(part: Part, columns: Columns, types: Sequence[NodeType]) -> tuple[Leaf, ...]:
    is_leaf = np.array([each.kind == "leaf" for each in types], bool)
    expected = set(np.flatnonzero(is_leaf[columns.type]).tolist()) if len(types) else set()
    leaves = tuple(_read_leaf(k, each) for k, each in enumerate(part.parts("leaves")))
    if len(leaves) != len(expected) or {leaf.node for leaf in leaves} != expected:
        raise BadDocument("leaves are not the nodes that are leaves, each once")
    return leaves


def _read_leaf(index: int, part: Part) -> Leaf:
    return Leaf(
        index,
        part.number("node", 0),
        part.shape("shape"),
        dtype_of(part.at("dtype", str)),
        device_of(part.at("device", str)),
        kind=part.word("kind", get_args(LeafKind)),
        name=part.at("name", str),
        names=tuple(part.texts("names")),
        owner=part.maybe("owner", str),
        module=part.maybe("module", str),
        near=part.at("near", str),
        uses=part.number("uses", 0),
        storage=part.maybe("storage", int),
    )


def _read_output(held: Any) -> Output | None:
    if held is None:
        return None
    part = Part.of(held)
    return Output(part.shape(0), dtype_of(part.at(1, str)), device_of(part.at(2, str)))


def _read_saved(part: Part) -> Saved:
    dtype = part.maybe(3, str)
    return Saved(
        part.at(0, str),
        part.word(1, get_args(SavedState)),
        None if part.at(2) is None else part.shape(2),
        None if dtype is None else dtype_of(dtype),
        part.number(4, 0),
        part.maybe(5, int),
        part.number(6, 0),
        part.maybe(7, int),
        part.maybe(8, int),
        part.maybe(9, bool),
        part.at(10, bool),
        part.at(11, bool),
    )


def _looked_up(part: Part, name: str, table: Sequence[_T], size: int) -> tuple[_T, ...]:
    """Return what a column of numbers stands for in a table; a column may be empty."""
    return tuple(table[number] for number in part.numbers(name, low=0, high=len(table), count=(0, size)).tolist())
