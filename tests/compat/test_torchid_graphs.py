"""torchID's calls walk graphs of any depth and shape: each leaf once, by a shortest path."""

from __future__ import annotations

import sys
from typing import Any

import fresh
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backsight.compat.torchid import find_intersection, find_leaves
from backsight.tape import capture


def leaf() -> torch.Tensor:
    return torch.ones(3, requires_grad=True)


def chain(x: torch.Tensor, depth: int) -> torch.Tensor:
    for _ in range(depth):
        x = x * 1.0
    return x


def diamonds(x: torch.Tensor, count: int) -> torch.Tensor:
    for _ in range(count):
        x = x + x.sin()
    return x


# --- find_leaves


def every_path(grad_fn: Any) -> list[list[Any]]:
    """What torchID walks: every path from below `grad_fn` to a leaf, depth first. Exponential, so for small graphs."""
    found = []
    for node, _ in grad_fn.next_functions:
        if node is not None:
            found += [[node]] if hasattr(node, "variable") else [[node, *rest] for rest in every_path(node)]
    return found


@st.composite
def small_graphs(draw: st.DrawFn) -> torch.Tensor:
    tensors = [leaf() for _ in range(draw(st.integers(1, 4)))]
    for _ in range(draw(st.integers(1, 8))):
        a, b = (tensors[draw(st.integers(0, len(tensors) - 1))] for _ in range(2))
        tensors.append(a * b if draw(st.booleans()) else a + b)
    return tensors[-1]


@given(small_graphs())
def test_leaves_are_torchids_without_repetition_and_paths_the_shortest_of_its(root: torch.Tensor) -> None:
    leaves, paths = find_leaves(root.grad_fn)
    by_leaf: dict[torch.Tensor, list[list[Any]]] = {}
    for path in every_path(root.grad_fn):
        by_leaf.setdefault(path[-1].variable, []).append(path)
    assert [id(x) for x in leaves] == [id(x) for x in by_leaf]
    for path, all_paths in zip(paths, by_leaf.values(), strict=True):
        assert path in all_paths
        assert len(path) == min(map(len, all_paths))


def test_a_leaf_is_found_below_5000_operations() -> None:
    x = leaf()
    leaves, (path,) = find_leaves(chain(x, 5000).grad_fn)
    assert leaves[0] is x
    assert len(path) == 5000


def test_a_million_paths_to_one_leaf_give_one_leaf() -> None:
    x = leaf()
    root = diamonds(x, 20)
    assert capture(root).count_paths(root, x) == 2**20
    leaves, (path,) = find_leaves(root.grad_fn)
    assert leaves[0] is x and len(leaves) == 1
    assert [type(node).__name__ for node in path] == ["AddBackward0"] * 19 + ["AccumulateGrad"]


def test_a_tied_weight_is_one_leaf() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False))
    model[1].weight = model[0].weight
    leaves, _ = find_leaves(model(torch.ones(2, 3)).sum().grad_fn)
    assert len(leaves) == 1 and leaves[0] is model[0].weight


def test_a_custom_function_that_keeps_a_variable_is_no_leaf() -> None:
    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.variable = "not a leaf"
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 2

    x = leaf()
    leaves, _ = find_leaves(Keeps.apply(x).sum().grad_fn)
    assert len(leaves) == 1 and leaves[0] is x


def test_the_node_of_a_leaf_has_no_leaves_below_it() -> None:
    root = leaf().sum()
    ((accumulate, _),) = root.grad_fn.next_functions
    assert find_leaves(accumulate) == ([], [])


@pytest.mark.slow
def test_deep_paths_can_be_dropped_in_any_order() -> None:
    program = """
import torch
from backsight.compat.torchid import find_leaves
for order in (["root", "paths"], ["paths", "root"]):
    held = {"root": torch.ones(1, requires_grad=True)}
    for _ in range(150_000):
        held["root"] = held["root"] * 1.0
    held["paths"] = find_leaves(held["root"].grad_fn)
    for name in order:
        del held[name]
print("alive")
"""
    done = fresh.run([sys.executable, "-c", program])
    assert (done.returncode, done.stdout) == (0, "alive\n")


@pytest.mark.parametrize(
    ("given_instead", "message"),
    [
        (
            None,
            "find_leaves was given None: the tensor is a leaf itself, or nothing that it was computed from requires",
        ),
        (torch.ones(2), "find_leaves takes a node, as in find_leaves(loss.grad_fn), not an object of type Tensor."),
        ("loss", "find_leaves takes a node, as in find_leaves(loss.grad_fn), not an object of type str."),
    ],
)
def test_what_is_no_node_is_refused(given_instead: Any, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        find_leaves(given_instead)
    assert str(raised.value).startswith(message)


# --- find_intersection


def names(path: list[Any] | None) -> list[str] | None:
    return None if path is None else [type(node).__name__ for node in path]


def test_the_path_to_a_leaf_ends_at_its_accumulation() -> None:
    x = leaf()
    assert names(find_intersection((x * 2).exp().sum(), x)) == [
        "SumBackward0",
        "ExpBackward0",
        "MulBackward0",
        "AccumulateGrad",
    ]


def test_the_path_to_an_intermediate_result_ends_at_the_node_that_made_it() -> None:
    hidden = leaf() * 2
    assert names(find_intersection(hidden.exp().sum(), hidden)) == ["SumBackward0", "ExpBackward0", "MulBackward0"]
    assert names(find_intersection(hidden, hidden)) == ["MulBackward0"]


def test_a_path_below_5000_operations_is_found_unless_a_depth_is_given() -> None:
    x = leaf()
    root = chain(x, 5000)
    path = find_intersection(root, x)
    assert path is not None and len(path) == 5001
    assert find_intersection(root, x, max_depth=5000) is None
    assert find_intersection(root, x, max_depth=5001) == path


def test_the_path_through_diamonds_is_a_shortest_one() -> None:
    x = leaf()
    assert names(find_intersection(diamonds(x, 20), x)) == ["AddBackward0"] * 20 + ["AccumulateGrad"]


def test_tensors_that_no_gradient_joins_have_no_path() -> None:
    x = leaf()
    root = x.sum()
    assert find_intersection(root, leaf()) is None
    assert find_intersection(root, torch.ones(2)) is None
    assert find_intersection(torch.ones(2), x) is None
    assert find_intersection(x, x) is None
    assert find_intersection(x.exp(), root) is None


def test_a_path_joins_two_tensors() -> None:
    with pytest.raises(TypeError, match=r"item 1 is an object of type str, where a tensor belongs\."):
        find_intersection(leaf(), "delta")  # type: ignore[arg-type]  # what is tested
