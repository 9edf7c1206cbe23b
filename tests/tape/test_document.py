"""A graph written as a document is the same graph when it is read; what is no document is refused, whatever it is."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

import backsight
from backsight.tape import BadDocument, Graph, capture, document, graph_of
from backsight.tape import document as written_as


def read_back(graph: Graph) -> Graph:
    return graph_of(json.loads(json.dumps(document(graph))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        x = self.norm(self.first(x)).relu()
        return self.last(checkpoint(torch.tanh, x + self.first(x), use_reentrant=False))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad * ctx.saved_tensors[0] ** 2


@pytest.fixture
def graph() -> Graph:
    net, delta = Net(), torch.zeros(4, requires_grad=True)
    with backsight.watch():
        loss = Cube.apply(net(torch.ones(3, 4) + delta)).sum()
        return backsight.graph(loss)


def test_all_that_a_picture_shows_is_read_back(graph):
    read = read_back(graph)
    assert document(read) == document(graph)
    assert str(read) == str(graph)
    assert read.to_svg() == graph.to_svg()
    assert read.saved_bytes == graph.saved_bytes
    assert [repr(node) for node in read.path("delta", "loss")] == [repr(node) for node in graph.path("delta", "loss")]
    assert [each._replace() for node in read.nodes for each in node.outputs if each] == [
        each for node in graph.nodes for each in node.outputs if each
    ]


def test_what_is_alive_is_not_in_it(graph):
    read = read_back(graph)
    assert all(leaf.tensor() is None and leaf.grad is None for leaf in read.leaves)
    assert read.shared(graph) == graph.shared(read) == ()
    assert read.shared(read_back(graph)) == ()
    assert max(s.storage or 0 for node in read.nodes for s in node.saved) < 100  # where they lay is nobody's business


def test_a_graph_without_details_or_names_is_written_too():
    x = torch.ones(3, requires_grad=True)
    bare = capture(x.exp().sum(), x * 2, details=False)
    assert document(read_back(bare)) == document(bare)
    leaf = capture(x)
    assert document(read_back(leaf)) == document(leaf)


@settings(max_examples=60)
@given(st.lists(st.text(st.characters(), max_size=40), min_size=4, max_size=4))
def test_names_may_be_anything(names):
    x = torch.ones(2, requires_grad=True)
    graph = capture(x.exp())
    leaf = replace(graph.leaves[0], name=names[0], names=(names[1],), module=names[2])
    named = graph.renamed([leaf], [names[3]])
    assert document(read_back(named)) == document(named)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=40))
def test_any_program_is_read_back(program):
    operations = (torch.add, torch.mul, lambda a, b: (a + b).t(), lambda a, b: torch.stack([a, b]).sum(0), torch.matmul)
    values = [torch.ones(2, 2, requires_grad=True), torch.full((2, 2), 0.5, requires_grad=True)]
    for operation, a, b in program:
        values.append(operations[operation](values[a % len(values)], values[b % len(values)]))
    graph = capture(*values[-3:])
    read = read_back(graph)
    assert document(read) == document(graph)
    assert str(read) == str(graph)


def test_a_document_is_small():
    x = torch.ones(8, 8, requires_grad=True)
    for _ in range(500):
        x = (x @ x).sin()
    assert len(json.dumps(document(capture(x)))) < 250 * 1000


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def _places(value, path=()):
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, held in inner:
        yield from _places(held, (*path, key))


@settings(max_examples=400)
@given(data=st.data())
def test_a_document_that_is_wrong_anywhere_is_refused_or_still_a_graph(data):
    """Whatever stands at whatever place: there is a clear error, or a graph that can be looked at."""
    held = copy.deepcopy(_WHOLE)
    *around, last = data.draw(st.sampled_from(_PLACES))
    target = held
    for key in around:
        target = target[key]
    if data.draw(st.booleans()):
        target[last] = data.draw(_JSON)
    else:
        del target[last]
    try:
        graph = graph_of(held)
    except BadDocument as error:
        assert 0 < len(str(error)) < 400
    else:
        assert str(graph)
        assert "</svg>" in graph.to_svg()


_WHOLE = written_as(capture(nn.Linear(2, 2)(torch.ones(1, 2)).relu().sum()))
_PLACES = [path for path in _places(_WHOLE) if path]


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("version", 2, "its version is 2, but this backsight reads 1"),
        ("version", None, "version must be int, not NoneType"),
        ("type", [0, 1, 2], "inputs_of has 6 entries, which does not fit the rest"),
        ("inputs", [9] * 6, "inputs holds int '9' but must hold numbers below 6"),
        ("inputs", [0] * 6, "inputs holds a node that does not stand after the one that consumes it"),
        ("leaves", [], "leaves are not the nodes that are leaves, each once"),
        ("types", [["X", "magic", None]], "types[0][1] must be one of op, leaf, custom, compiled, checkpoint"),
        ("types", "abc", "types must be an object or a list, not str 'abc'"),
        ("outputs", [[[[2], "system", "cpu"]]], "there is no dtype 'system'"),
        ("outputs", [[[[2], "float32", "os"]]], "there is no device 'os'"),
        ("roots", [[99, 0, ""]], "roots[0][0] must be from 0 to 5, not 99"),
    ],
)
def test_an_error_says_where_a_document_is_wrong(place, value, says):
    with pytest.raises(BadDocument) as failure:
        graph_of({**_WHOLE, place: value})
    assert says in str(failure.value)


@pytest.mark.parametrize("held", [None, [], {}, 3, "graph", [[]], {"version": True}])
def test_what_is_no_document_is_refused(held):
    with pytest.raises(BadDocument):
        graph_of(held)


def test_a_walk_gives_up_at_too_many_nodes_and_the_graph_stays_usable():
    x = torch.ones(2, requires_grad=True)
    y = x
    for _ in range(3000):
        y = y * 1.0
    with pytest.raises(backsight.tape.TooManyNodes, match="the graph has more than 100 nodes"):
        capture(y, most=100)
    assert len(capture(y, most=3001)) == 3001
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]
