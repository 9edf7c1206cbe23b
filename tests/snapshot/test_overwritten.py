"""A leaf whose variable was overwritten is named after it where graph and source agree, and never without saying so."""

from __future__ import annotations

import types
import weakref
from pathlib import Path

import torch

import backsight
from backsight.tape import Leaf


def leaf() -> torch.Tensor:
    return torch.ones(3, requires_grad=True)


def only_leaf(loss: torch.Tensor) -> Leaf:
    (only,) = backsight.graph(loss).leaves
    return only


def test_a_leaf_that_was_divided_away() -> None:
    delta = leaf()
    delta = delta / 3
    loss = delta.sum()
    found = only_leaf(loss)
    line = test_a_leaf_that_was_divided_away.__code__.co_firstlineno + 2
    assert (found.name, found.names, found.kind) == ("delta (overwritten)", ("delta (overwritten)",), "overwritten")
    assert found.near.startswith("operand of `delta = delta / 3`, ")
    assert found.near.endswith(f"{Path(__file__).name}:{line}")


def test_an_attribute_that_was_overwritten() -> None:
    class State:
        def __init__(self) -> None:
            self.hidden = leaf()

        def step(self) -> Leaf:
            self.hidden = self.hidden.tanh()
            loss = self.hidden.sum()
            return only_leaf(loss)

    assert State().step().name == "self.hidden (overwritten)"


def test_a_variable_that_was_never_the_leaf_does_not_lend_its_name() -> None:
    """`wave` is near, but no statement computes it from itself."""
    wave = leaf().sin()
    loss = wave.sum()
    found = only_leaf(loss)
    assert (found.name, found.kind, found.near) == ("", "unknown", "1 operation before wave")


def test_what_is_added_to_a_running_sum_does_not_take_the_name_of_the_sum() -> None:
    """Of `total = total + x` each leaf `x` is the other operand: the source and the graph disagree."""
    total = leaf()
    total = total + leaf()
    total = total + leaf()
    loss = total.sum()
    assert sorted(each.name for each in backsight.graph(loss).leaves) == ["", "", "total (overwritten)"]


def test_an_operand_on_the_right_can_be_the_lost_leaf() -> None:
    scale, delta = leaf(), leaf()
    delta = scale / delta
    loss = delta.sum()
    assert [each.name for each in backsight.graph(loss).leaves] == ["scale", "delta (overwritten)"]


def test_a_variable_three_operations_away_lends_its_name() -> None:
    delta = leaf()
    delta = delta.sin().cos().sin()
    loss = delta.sum()
    assert only_leaf(loss).name == "delta (overwritten)"


def test_a_variable_far_away_does_not_lend_its_name() -> None:
    delta = leaf()
    delta = delta.sin().cos().sin().cos()
    loss = delta.sum()
    assert only_leaf(loss).near == "4 operations before delta"


def test_the_nearest_of_several_results_counts() -> None:
    x = leaf()
    near = x.sin()
    far = near.cos()
    loss = far.sum()
    hidden = weakref.ref(x)
    del x
    assert hidden() is not None
    assert only_leaf(loss).near == "1 operation before near"


def test_without_source_only_the_distance_is_told() -> None:
    program = "delta = leaf()\ndelta = delta / 3\nloss = delta.sum()\nfound = only_leaf(loss)"
    namespace = {"leaf": leaf, "only_leaf": only_leaf, "__name__": "scratch"}
    exec(compile(program, "<no such file>", "exec"), namespace)
    found = namespace["found"]
    assert isinstance(found, Leaf)
    assert (found.name, found.near) == ("", "1 operation before delta")


def test_a_leaf_of_which_no_result_has_a_variable_is_left_alone() -> None:
    (found,) = backsight.graph((leaf() * 2).sum()).leaves
    assert (found.name, found.kind, found.near) == ("", "unknown", "")


def test_results_of_another_graph_lend_no_names() -> None:
    other = leaf()
    other = other * 2
    (first, second) = backsight.graph((leaf() * 3).sum(), other).leaves
    assert {first.name, second.name} == {"", "other (overwritten)"}


def test_named_leaves_stay_as_they_are() -> None:
    kept, delta = leaf(), leaf()
    delta = delta * kept
    loss = delta.sum()
    assert {each.name: each.kind for each in backsight.graph(loss).leaves} == {
        "kept": "variable",
        "delta (overwritten)": "overwritten",
    }


def test_many_lost_leaves_are_placed_in_one_pass() -> None:
    total = torch.zeros(3)
    for _ in range(3_000):
        total = total + leaf()
    places = [each.near for each in backsight.graph(total).leaves]
    assert sorted(int(place.split()[0]) for place in places) == list(range(1, 3_001))


def test_a_result_is_not_kept_alive() -> None:
    delta = leaf()
    delta = delta / 3
    hidden = weakref.ref(delta)
    graph = backsight.graph(delta.sum())
    del delta
    assert hidden() is None and isinstance(graph, backsight.Graph)


def test_a_subclass_among_the_results_is_not_asked() -> None:
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: object, types: object, args: object = (), kwargs: object = None) -> object:
            raise AssertionError(f"{func} was run")

    box = types.SimpleNamespace(loud=(leaf() * 2).as_subclass(Loud))
    delta = leaf()
    delta = delta / 3
    assert only_leaf(delta.sum()).name == "delta (overwritten)"
    assert type(box.loud) is Loud
