"""Which nodes of the graph a box of the picture stands for: all, each once, in few characters."""

import re
from collections import Counter
from xml.etree import ElementTree

import pytest
import torch
from graphs import chain, sampler, tangle, transformer
from hypothesis import given
from hypothesis import strategies as st

import backsight
from backsight.drawing.places import spelled

SVG = "{http://www.w3.org/2000/svg}"


def read(text):
    """Return the numbers that an attribute spells."""
    numbers = []
    for part in text.split():
        first, last, step = re.fullmatch(r"(\d+)(?:-(\d+))?(?:/(\d+))?", part).groups()
        numbers += range(int(first), int(last or first) + 1, int(step or 1))
    return numbers


def lit(graph, node, **look):
    """Return the first text on what is lit in the picture when a node runs."""
    root = ElementTree.fromstring(graph.to_svg(**look))
    groups = [g for g in root.iter(f"{SVG}g") if node in read(g.get("data-node", ""))]
    return [g.find(f"{SVG}text").text for g in groups]


@pytest.mark.parametrize(
    ("graph", "look"),
    [
        (transformer, {}),
        (transformer, {"max_boxes": 1}),
        (transformer, {"depth": -1, "fold": False, "views": True}),
        (lambda: sampler(5), {}),
        (lambda: tangle(200), {}),
        (lambda: chain(50), {}),
        (lambda: backsight.graph(*(torch.ones(2, requires_grad=True) for _ in range(2))), {}),
    ],
)
def test_every_node_is_somewhere_in_the_picture_and_every_operation_in_one_place(graph, look):
    graph = graph()
    root = ElementTree.fromstring(graph.to_svg(**look))
    found = Counter(node for g in root.iter(f"{SVG}g") for node in read(g.get("data-node", "")))
    assert found.keys() == {node.index for node in graph.nodes}
    assert all(found[node.index] == 1 for node in graph.nodes if node.kind != "leaf")


def test_an_operation_lights_its_box_or_the_closed_module_that_it_is_in():
    graph = transformer()
    softmax = next(node.index for node in graph.nodes if node.op == "Softmax")
    assert lit(graph, softmax, max_boxes=30) == ["Softmax"]
    assert lit(graph, softmax, max_boxes=5) == ["model.h.0…3 × 4"]


def test_a_view_that_is_not_shown_lights_what_consumes_it():
    x = torch.ones(2, 3, requires_grad=True)
    graph = backsight.graph(x.exp().t().unsqueeze(0).sum())
    views = [node.index for node in graph.nodes if node.op in ("T", "Unsqueeze")]
    assert [lit(graph, node) for node in views] == [["Sum"], ["Sum"]]
    assert [lit(graph, node, views=True) for node in views] == [["Unsqueeze"], ["T"]]


def test_a_leaf_lights_its_pill_in_whatever_copy_it_is_used():
    graph = transformer()
    leaves = [leaf.node for leaf in graph.leaves if leaf.name.endswith("mlp.0.weight")]
    assert len(leaves) == 4
    assert all(lit(graph, node, max_boxes=30) == ["weight"] for node in leaves)
    assert all(lit(graph, node, max_boxes=1) == ["model.h.0…3 × 4"] for node in leaves)


@pytest.mark.slow
def test_a_hundred_thousand_nodes_are_spelled_in_a_few_characters():
    assert len(chain(100_000).to_svg()) < 10_000


@given(st.sets(st.integers(0, 60)) | st.sets(st.integers(0, 10**6)))
def test_numbers_are_read_as_they_were_meant(numbers):
    assert read(spelled(numbers)) == sorted(numbers)


def test_equal_steps_are_a_range():
    assert spelled([7, 1, 4, 5, 6, 20, 22, 24]) == "1 4-7 20-24/2"
