"""Searches at the edge: nothing to look for, too much to look through, data in circles."""

from __future__ import annotations

import sys
import types
import weakref
from typing import Any

import pytest
import torch
from hiding import path_of, tensor

from backsight.naming import search

# ---- bad input and bounds


def test_an_empty_call() -> None:
    assert search([]).names == ()


@pytest.mark.parametrize("value", [None, 3, "text", torch.float32])
def test_a_value_without_identity_has_no_name(value: object) -> None:
    holder = [value]
    assert search([value]).names == ((),)
    assert holder


def test_the_same_target_twice() -> None:
    delta = tensor()
    first, second = search([delta, delta]).names
    assert first == second and first


def test_a_model_on_the_meta_device() -> None:
    net = torch.nn.Linear(2, 2, device="meta")
    assert path_of(weakref.ref(net.weight)) == "net.weight"


def test_running_out_of_budget_is_said() -> None:
    heap = [[object() for _ in range(100)] for _ in range(100)]
    found = search([tensor()], budget=1_000)
    assert not found.complete and found.names == ((),) and found.visited < 5_000  # of 10,000
    assert search([tensor()]).complete and heap


def test_large_lists_of_plain_values_do_not_use_up_the_budget() -> None:
    numbers, words = [float(n) for n in range(300_000)], {str(n): str(n) for n in range(100_000)}
    holder = [tensor()]
    found = search([weakref.ref(holder[0])()], budget=100_000)
    assert found.complete and found.names[0][0].path == "holder[0]"
    assert len(numbers) + len(words) == 400_000


def test_an_object_that_holds_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    loop.append(tensor())
    assert search([weakref.ref(loop[1])()]).names[0][0].path == "loop[1]"


def test_a_thousand_nested_modules() -> None:
    net: Any = torch.nn.Linear(1, 1)
    target = weakref.ref(net.weight)
    for _ in range(1_500):
        outer = torch.nn.Module()
        outer.add_module("inner", net)
        net = outer
    del outer
    assert search([target()]).names[0][0].path.startswith("net.inner.inner")


def test_the_tests_that_pytest_has_collected_are_not_looked_through(request: pytest.FixtureRequest) -> None:
    def unnamed(holder: Any) -> bool:
        holder.kept = torch.ones(1)
        try:
            (names,) = search([holder.kept]).names
            return not names
        finally:
            del holder.kept

    assert all(map(unnamed, (request.node, request.node.parent, request.session)))
    assert not unnamed(types.SimpleNamespace())  # what is no test is looked into


def test_what_imported_a_module_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    def imported() -> weakref.ref[torch.Tensor]:
        module = types.ModuleType("made_up")
        module.__loader__ = types.SimpleNamespace(session=[torch.ones(1)])  # as pytest's, which holds the session
        module.held = torch.ones(1)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "made_up", module)
        return weakref.ref(module.__loader__.session[0])

    assert path_of(imported()) == ""
    assert path_of(weakref.ref(vars(sys.modules["made_up"])["held"])) == "held"
