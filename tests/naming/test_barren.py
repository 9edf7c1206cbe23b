"""Data that leads nowhere is passed over, and nothing that leads to a tensor is."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from backsight.naming import search, standstill, walk
from backsight.naming.barren import BATCH, Barren

MANY = 3 * BATCH


@dataclass
class Sample:
    text: str
    label: Any = None
    held: Any = None


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


def found(held: Any, target: torch.Tensor) -> tuple[str, int]:
    """The name of a tensor somewhere in `held`, and how many objects were visited for it."""
    result = search([target], frames=(_frame(held),))
    return (result.names[0][0].path if result.names[0] else ""), result.visited


def _frame(held: Any) -> Any:
    import sys

    return sys._getframe(1) if held is None else _holding(held)


def _holding(held: Any) -> Any:
    import sys

    return sys._getframe()


def rows(n: int) -> list[dict[str, Any]]:
    return [{"id": str(k), "tokens": list(range(4)), "label": (k, None)} for k in range(n)]


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "LARGE", 256)


def chain(n: int) -> list[Sample]:
    """Objects of which each knows the one before and the one after."""
    nodes = [Sample(str(k)) for k in range(n)]
    for one, other in pairwise(nodes):
        one.held, other.label = other, one
    return nodes


def circle(n: int) -> list[Sample]:
    """Objects that know one another, as those of a graph do."""
    nodes = [Sample(str(k)) for k in range(n)]
    for k, node in enumerate(nodes):
        node.held = [nodes[(k * step + 1) % n] for step in (1, 7, 31)]
    return nodes


class TestWhatIsPassedOver:
    @pytest.mark.parametrize("make", [circle, chain], ids=["a circle", "a chain"])
    def test_data_in_circles_or_deeper_than_any_tree_is_not_visited(self, make):
        data, target = make(MANY), torch.ones(1)
        name, visited = found([data, [[target]]], target)
        assert name == "held[1][0][0]" and visited < MANY

    def test_a_data_set_is_not_visited(self):
        dataset, target = rows(MANY), torch.ones(1)
        name, visited = found([dataset, target], target)
        assert name == "held[1]" and visited < MANY

    @pytest.mark.parametrize(
        "make",
        [
            lambda: [Sample(str(k), [k]) for k in range(MANY)],
            lambda: [Slotted([k]) for k in range(MANY)],
            lambda: {k: {k} for k in range(MANY)},
            lambda: [deque([k]) for k in range(MANY)],
            lambda: {"a": [[[k], [k]] for k in range(MANY)]},
            lambda: [[rows(2) for _ in range(32)] for _ in range(64)],
            lambda: [(torch.zeros(1), k) for k in range(MANY)],
            lambda: [{"x": np.zeros(1), "y": torch.tensor(k)} for k in range(MANY)],
            lambda: list(torch.zeros(MANY, 1).unbind()),
        ],
        ids=["objects", "slots", "a dict of sets", "deques", "nested lists", "a tree", "tensors", "arrays", "views"],
    )
    def test_whatever_it_is_made_of(self, make):
        data, target = make(), torch.ones(1)
        _, visited = found([data, [[[[[target]]]]]], target)
        assert visited < MANY + 64 * 64  # the batch with the tensor in it is visited

    def test_a_data_set_after_circles_and_batches_that_lead_somewhere_is_passed_over_too(self):
        judge = Barren(walk.Walk([], (torch.Tensor,), False, 1000).referents, [])
        assert not judge.without(circle(MANY))
        for _ in range(3):
            assert judge.without([*rows(8), torch.ones(1)])
        assert not judge.without(rows(MANY))


class TestDataOfTensors:
    @pytest.mark.parametrize(
        ("hide", "end"),
        [
            (lambda target: target, ""),
            (lambda target: [target], "[0]"),
            (lambda target: {"w": target}, "['w']"),
        ],
        ids=["itself", "in a list", "in a dict"],
    )
    def test_one_that_is_sought_is_found_among_them(self, hide, end):
        data, target = [torch.zeros(1) for _ in range(MANY)], torch.ones(1)
        data[MANY // 2] = hide(target)
        assert found(data, target)[0] == f"held[{MANY // 2}]{end}"

    def test_so_is_what_a_view_looks_into(self):
        whole = torch.zeros(MANY, 1)
        views = list(whole.unbind())
        assert found([views], whole)[0].endswith("]._base")

    def test_so_is_the_gradient_of_one(self):
        data = [torch.zeros(1) for _ in range(MANY)]
        data[7] = torch.zeros(1, requires_grad=True)
        data[7].grad = torch.ones(1)
        assert found(data, data[7].grad)[0] == "held[7].grad"

    def test_so_is_what_an_array_of_objects_holds(self):
        target = torch.ones(1)
        data = [np.zeros(1) for _ in range(MANY)]
        data[9] = np.array([target, None], dtype=object)
        assert found(data, target)[0].startswith("held[9]")

    def test_of_those_that_are_collected_only_those_that_are_asked_for(self):
        data = [torch.full((1,), k) for k in range(MANY)]
        whole = search((), collect=(torch.Tensor,), frames=(_holding(data),)).found
        one = search((), collect=(torch.Tensor,), where=lambda t: int(t) == 5, frames=(_holding(data),)).found
        assert len(whole) == MANY and [name.path for _, name in one] == ["held[5]"]

    def test_containers_that_are_not_asked_for_do_not_hide_others_in_them(self):
        data = [[[k], [k, k]] for k in range(MANY)]
        met = search((), collect=(list,), where=lambda each: each == [5, 5], frames=(_holding(data),)).found
        assert [name.path for _, name in met] == ["held[5][1]"]

    def test_at_a_standstill_another_search_finds_what_it_seeks(self):
        data = [(torch.full((1,), k), k) for k in range(MANY)]
        with standstill():
            search((), collect=(torch.nn.Module,), frames=(_holding(data),))
            assert found(data, data[3][0])[0] == "held[3][0]"
            assert len(search((), collect=(torch.Tensor,), frames=(_holding(data),)).found) == MANY


class TestWhatIsFound:
    @pytest.mark.parametrize(
        "hide",
        [
            lambda tensor: tensor,
            lambda tensor: {"x": [tensor]},
            lambda tensor: Sample("", (tensor,)),
            lambda tensor: Slotted(Slotted(tensor)),
            lambda tensor: {tensor: 1},
            lambda tensor: torch.nn.ParameterList([torch.nn.Parameter(tensor)]),
            lambda tensor: lambda: tensor,
        ],
        ids=["itself", "in a dict", "in an object", "in slots", "as a key", "in a module", "in a closure"],
    )
    def test_a_tensor_in_the_midst_of_it(self, hide):
        data, tensor = rows(MANY), torch.ones(1)
        data[MANY // 2]["label"] = hide(tensor)
        met = search((), collect=(torch.Tensor,), frames=(_holding(data),)).found
        assert any(each.data_ptr() == tensor.data_ptr() for each, _ in met)

    def test_a_module_of_a_large_level_with_all_of_its_own(self):
        data = rows(MANY)
        net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 2)))
        data[5]["label"] = net
        assert found(data, net[1][0].weight)[0] == "held[5]['label'].1.0.weight"

    def test_an_object_that_is_no_tensor(self):
        data, target = rows(MANY), Sample("the one")
        data[-1]["label"] = target
        assert search([target], frames=(_holding(data),)).names[0][0].path == f"held[{MANY - 1}]['label']"

    def test_what_only_a_class_of_its_own_holds(self):
        class Local:
            kept = torch.ones(1)

        data = [Local() for _ in range(MANY)]
        tensor = Local.kept
        del Local
        assert found(data, tensor)[0].endswith(".kept")

    def test_nothing_is_asked_of_a_class_with_a_metaclass_of_its_own(self):
        class Meta(type):
            def __hash__(cls):
                raise AssertionError("asked")

            __eq__ = __hash__

        class Odd(metaclass=Meta):
            def __init__(self, held):
                self.held = held

        tensor = torch.ones(1)
        data = [Odd([k]) for k in range(MANY)]
        data[7].held = tensor
        assert found(data, tensor)[0] == "held[7].held"

    def test_what_data_in_circles_hold(self):
        data = rows(MANY)
        for row in data:
            row["all"] = data
        tensor = torch.ones(1)
        data[3]["label"] = tensor
        assert found(data, tensor)[0] == "held[3]['label']"

    def test_what_one_circle_holds_beside_another(self):
        with_it, without, tensor = circle(MANY), circle(MANY), torch.ones(1)
        with_it[5].held.append(tensor)
        assert found([without, with_it], tensor)[0] == "held[1][5].held[3]"
        assert found([with_it, without], tensor)[0].startswith("held[0][5].held")


class TestAtAStandstill:
    def test_data_is_looked_through_once(self, monkeypatch):
        data, judged = rows(MANY), []
        judge, first = Barren._leads_nowhere, data[0]

        def counted(self, batch):
            judged.extend(each for each in batch if each is first)
            return judge(self, batch)

        monkeypatch.setattr(Barren, "_leads_nowhere", counted)
        with standstill():
            for kind in (torch.Tensor, torch.nn.Module, torch.optim.Optimizer, torch.Tensor):
                search((), collect=(kind,))
        assert len(judged) == 1
        search((), collect=(torch.Tensor,))
        assert len(judged) == 2

    def test_but_again_for_what_it_is_made_of(self):
        data = [Sample(str(k)) for k in range(MANY)]
        with standstill():
            search((), collect=(torch.Tensor,))
            assert len(search((), collect=(Sample,)).found) == len(data)

    def test_nothing_of_it_lasts(self):
        data = rows(MANY)
        with standstill():
            search((), collect=(torch.Tensor,))
        data[5]["label"] = torch.ones(3, 2)
        with standstill():
            assert any(name.path == "data[5]['label']" for _, name in search((), collect=(torch.Tensor,)).found)


leaves = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.just("tensor"))
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        inner.map(Slotted),
        inner.map(lambda held: Sample("", held)),
    ),
    max_leaves=12,
)


def _planted(tree: Any, planted: list[torch.Tensor]) -> Any:
    """The tree with a tensor for each "tensor"."""
    if tree == "tensor":
        planted.append(torch.ones(1))
        return planted[-1]
    if isinstance(tree, (list, tuple)):
        return type(tree)(_planted(each, planted) for each in tree)
    if isinstance(tree, dict):
        return {key: _planted(each, planted) for key, each in tree.items()}
    if isinstance(tree, Slotted):
        return Slotted(_planted(tree.held, planted))
    return Sample(tree.text, _planted(tree.label, planted)) if isinstance(tree, Sample) else tree


def _leads(objects: list[object]) -> Iterator[object]:
    """Those objects that lead to a tensor, found out one by one."""
    for each in objects:
        stack, seen = [each], set()
        while stack:
            here = stack.pop()
            if isinstance(here, torch.Tensor):
                yield each
                break
            if id(here) not in seen and not isinstance(here, type):
                seen.add(id(here))
                stack.extend(gc.get_referents(here))


@given(st.lists(trees, max_size=30))
def test_nothing_that_leads_to_a_tensor_is_ever_dropped(forest: list[Any]):
    planted: list[torch.Tensor] = []
    objects = [_planted(tree, planted) for tree in forest]
    judge = Barren(walk.Walk([], (torch.Tensor,), False, 1000).referents, [])
    kept = {id(each) for each in judge.without(objects)}
    assert all(id(each) in kept for each in _leads(objects))
    assert planted or not kept


@given(st.lists(trees, max_size=30), st.integers(0, 1000))
def test_of_tensors_only_what_is_sought_or_has_a_gradient_is_kept(forest: list[Any], chosen: int) -> None:
    planted: list[torch.Tensor] = []
    objects = [_planted(tree, planted) for tree in forest]
    trained, sought = planted[: chosen % 3], planted[3:4]
    for each in trained:
        each.requires_grad_()
    judge = Barren(walk.Walk(sought, (), False, 1000).referents, sought)
    kept = {id(each) for each in judge.without(objects)}
    wanted = {id(each) for each in (*trained, *sought)}
    assert bool(kept) == bool(wanted)
    assert not kept or kept == set(map(id, objects))  # they are one batch
