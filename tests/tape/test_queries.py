"""Questions to a graph: paths, what lies between, how many ways, what two graphs share."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backsight.tape import NotInGraph, capture


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


@pytest.fixture
def model():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


@pytest.fixture
def graph(model):
    return capture(model(torch.ones(2, 3)).sum(), model=model)


def ops(nodes):
    return [node.op for node in nodes]


def test_a_path_leads_from_the_first_place_to_the_second(graph):
    assert ops(graph.path("0.weight", 0)) == ["AccumulateGrad", "T", "Addmm", "Tanh", "Addmm", "Sum"]
    assert graph.path(0, "0.weight") == tuple(reversed(graph.path("0.weight", 0)))


def test_a_path_is_a_shortest_one():
    w = leaf(1)
    y = w.sin().cos().exp() + w
    assert ops(capture(y).path(w, y)) == ["AccumulateGrad", "Add"]


def test_a_path_from_a_place_to_itself_is_that_place(graph):
    assert graph.path("0.bias", "0.bias") == graph.between("0.bias", "0.bias")
    assert ops(graph.path("0.bias", "0.bias")) == ["AccumulateGrad"]
    assert graph.count_paths("0.bias", "0.bias") == 1


def test_no_path_is_an_empty_one(graph):
    assert graph.path("0.weight", "2.weight") == ()
    assert graph.between("0.weight", "2.weight") == ()
    assert graph.count_paths("0.weight", "2.weight") == 0


def test_what_lies_between_is_in_backward_order_whichever_end_is_named_first():
    w = leaf(1)
    h = w.sin()
    y = h.cos() * h.exp() + w
    g = capture(y)
    assert set(ops(g.between(h, y))) == {"Add", "Mul", "Exp", "Cos", "Sin"}
    assert g.between(h, y) == g.between(y, h)
    assert [n.index for n in g.between(w, y)] == list(range(len(g)))


def test_a_place_is_a_tensor_leaf_node_name_or_index():
    w = leaf(2)
    h = w.sin()
    y = h.sum()
    g = capture(y)
    sine = g.nodes[1]
    for place in (h, sine, "SinBackward0", 1, g.path(w, y)[1]):
        assert g.path(place, y) == (sine, g.roots[0])
    for place in (w, g.leaves[0], g.leaves[0].node, "AccumulateGrad"):
        assert g.count_paths(place, y) == 1


def test_every_name_of_a_tied_weight_finds_it():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    g = capture(model(torch.ones(1, 2)), model=model)
    assert g.leaves[0].names == ("0.weight", "1.weight")
    assert g.path("0.weight", 0) == g.path("1.weight", 0)
    assert g.count_paths("1.weight", 0) == 2


def other_graph():
    return capture(leaf(1).sin())


@pytest.mark.parametrize(
    ("place", "error", "said"),
    [
        (99, NotInGraph, "there is no node 99: the graph has 10 nodes, numbered from 0."),
        (-1, NotInGraph, "there is no node -1: the graph has 10 nodes, numbered from 0."),
        (
            "AddmmBackward0",
            NotInGraph,
            "'AddmmBackward0' fits 2 nodes; pass one of them, a tensor or an index instead.",
        ),
        (
            "1.weight",
            NotInGraph,
            "no leaf, root or node of this graph is called '1.weight'. It knows: 0.weight, 0.bias, 2.weight, 2.bias.",
        ),
        (
            lambda: other_graph().nodes[0],
            NotInGraph,
            "SinBackward0 #0 belongs to another graph; look it up in this one by name or tensor.",
        ),
        (
            lambda: other_graph().leaves[0],
            NotInGraph,
            "unnamed leaf of shape 1 belongs to another graph; look it up in this one by name or tensor.",
        ),
        (lambda: leaf(2, 3), NotInGraph, "the tensor of shape (2, 3) is neither a leaf of this graph nor made in it."),
        (
            lambda: torch.ones(2),
            NotInGraph,
            "the tensor of shape (2,) is neither a leaf of this graph nor made in it.",
        ),
        (lambda: leaf(2).exp(), NotInGraph, "the tensor of shape (2,) is neither a leaf of this graph nor made in it."),
        (1.5, TypeError, "a place in a graph is a tensor, leaf, node, name or index, not float."),
        (True, TypeError, "a place in a graph is a tensor, leaf, node, name or index, not bool."),
        (None, TypeError, "a place in a graph is a tensor, leaf, node, name or index, not NoneType."),
    ],
)
def test_a_place_that_cannot_be_found_is_refused(graph, place, error, said):
    place = place() if callable(place) else place
    with pytest.raises(error) as caught:
        graph.path(place, 0)
    assert str(caught.value) == said


def test_a_graph_without_names_says_so():
    with pytest.raises(NotInGraph) as caught:
        capture(leaf(1).sin()).path("loss", 0)
    assert str(caught.value) == "no leaf, root or node of this graph is called 'loss'. It knows: no names."


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=3), min_size=1, max_size=9))
def test_paths_agree_with_brute_force_on_random_graphs(program):
    w = leaf(1)
    values = [w]
    for operands in program:
        values.append(torch.stack([values[k % len(values)] for k in operands]).sum(0))
    g = capture(values[-1])
    top, bottom = 0, len(g) - 1
    every = list(all_paths(g, top, bottom))

    assert g.count_paths(w, values[-1]) == len(every)
    assert {n.index for n in g.between(w, values[-1])} == set(itertools.chain(*every))
    assert len(g.path(w, values[-1])) == min(map(len, every))
    assert tuple(reversed([n.index for n in g.path(w, values[-1])])) in every


def all_paths(g, top, bottom):
    if top == bottom:
        yield (bottom,)
        return
    for edge in g.nodes[top].inputs:
        if edge is not None:
            for rest in all_paths(g, edge.node.index, bottom):
                yield (top, *rest)


@pytest.mark.parametrize("blocks", [1, 10, 64, 300])
def test_residual_blocks_double_the_paths_each_and_the_count_is_exact(blocks):
    w = leaf(1)
    x = w * 1
    for _ in range(blocks):
        x = x + x.sin()
    assert capture(x, details=False).count_paths(w, x) == 2**blocks


def test_a_deep_transformer_has_more_paths_than_anyone_can_list():
    torch.manual_seed(0)
    layers = 25
    encoder = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), layers, enable_nested_tensor=False
    )
    x = torch.ones(1, 2, 8, requires_grad=True)
    y = encoder(x)
    g = capture(y, details=False)
    through_one = capture(encoder.layers[0](x), details=False).count_paths(x, 0)
    assert g.count_paths(x, y) == through_one**layers > 10**11


def test_two_graphs_share_the_operations_below_both():
    w = leaf(1)
    trunk = w.sin().cos()
    first, second = capture(trunk.exp()), capture(trunk.tanh())
    assert ops(first.shared(second)) == ["Cos", "Sin"]
    assert ops(second.shared(first)) == ["Cos", "Sin"]
    assert all(node.graph is first for node in first.shared(second))


def test_graphs_of_different_losses_share_nothing_but_leaves():
    w = leaf(1)
    first, second = w.sin(), w.cos()
    assert capture(first).shared(capture(second)) == ()


def test_a_graph_that_has_gone_is_not_taken_for_the_one_in_its_place():
    w = leaf(1)
    old = capture(w.sin().cos())
    new = [w.sin().cos() for _ in range(50)]
    assert all(capture(y).shared(old) == () for y in new)


def test_shared_compares_graphs_only(graph):
    with pytest.raises(TypeError, match=r"^shared\(\) compares with another Graph, not with Tensor\.$"):
        graph.shared(torch.ones(1))


def test_a_wide_and_deep_graph_is_queried_without_recursion():
    w = leaf(1)
    y = w * 1
    for _ in range(20_000):
        y = y.neg()
    g = capture(y, details=False)
    assert len(g.path(w, y)) == len(g.between(w, y)) == len(g) == 20_002
    assert g.count_paths(w, y) == 1


def test_an_answer_says_which_nodes_it_holds():
    w = leaf(1)
    assert repr(capture(w.sin()).path(0, w)) == "(<node 0: SinBackward0>, <node 1: unnamed leaf of shape 1>)"
