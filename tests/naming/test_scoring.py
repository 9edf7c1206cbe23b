"""Of all the names that an object has, the first is the one a person would use."""

from __future__ import annotations

import collections
import pickle
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hiding import tensor

from backsight.naming import Name, Search, search, walk


def net() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3))


def paths(hidden: Callable[[], Any], **options: Any) -> list[str]:
    return [name.path for name in search([hidden()], **options).names[0]]


def test_a_module_path_wins_over_a_list_a_loop_variable_and_an_optimizer() -> None:
    model = net()
    params = list(model.parameters())
    optimizer = torch.optim.SGD(params)  # noqa: F841  # a name is wanted
    for p in params:
        last = weakref.ref(p)
    found = search([last()], collect=(torch.optim.Optimizer,)).names[0]  # a full search: the optimizer lies deepest
    assert [(name.path, name.kind) for name in found] == [
        ("model.2.bias", "parameter"),
        ("p", "local"),
        ("params[3]", "item"),
        ("optimizer.param_groups[0]['params'][3]", "item"),
    ]


def test_a_module_path_wins_even_when_the_module_lies_deeper() -> None:
    class Trainer:
        pass

    trainer: Any = Trainer()
    trainer.task = Trainer()
    trainer.task.model = net()
    params = list(trainer.task.model.parameters())
    assert paths(weakref.ref(params[0]))[0] == "trainer.task.model.0.weight"


def test_a_module_path_starts_at_the_topmost_module() -> None:
    model = net()
    for m in model.children():
        last = weakref.ref(m.weight) if isinstance(m, torch.nn.Linear) else None
    assert paths(last)[0] == "model.2.weight"
    assert paths(weakref.ref(m)) == ["model.2", "m"]


def test_a_wrapper_lends_its_name_only_when_nothing_else_does() -> None:
    model = net()
    wrapped = torch.nn.DataParallel(model)  # noqa: F841  # a name is wanted
    target = weakref.ref(model[0].weight)
    assert paths(target)[0] == "model.0.weight"
    del model
    assert paths(target)[0] == "wrapped.module.0.weight"


def test_a_wrapper_makes_no_claim_on_what_it_wraps() -> None:
    models = [net()]
    wrapped = torch.nn.DataParallel(models[0])  # noqa: F841  # a name is wanted
    assert paths(weakref.ref(models[0]))[0] == "models[0]"


def test_a_module_is_remembered_beside_however_many_other_holders() -> None:
    trainer = types.SimpleNamespace(task=types.SimpleNamespace(model=net()))
    groups = [[trainer.task.model[0].weight] for _ in range(walk.HOLDERS + 1)]
    assert paths(lambda: groups[0][0])[0] == "trainer.task.model.0.weight"


def test_the_callers_word_for_a_module_wins_over_self() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> str:
            return search([self.fc.weight]).names[0][0].text

    model = Net()
    function = "test_the_callers_word_for_a_module_wins_over_self"
    assert model(torch.ones(3)) == f"model.fc.weight (local of {function})"


def test_tied_weights_have_both_names() -> None:
    model = torch.nn.ModuleDict({"embed": torch.nn.Embedding(3, 3), "head": torch.nn.Linear(3, 3, bias=False)})
    model["head"].weight = model["embed"].weight
    assert paths(weakref.ref(model["head"].weight)) == ["model.embed.weight", "model.head.weight"]


def test_a_variable_wins_over_an_item() -> None:
    loss = tensor()
    history = [loss]
    assert paths(weakref.ref(loss))[0] == "loss" and history


def test_two_variables_of_one_tensor_are_both_told() -> None:
    first = second = tensor()
    assert paths(weakref.ref(first)) == ["first", "second"] and second is first


def test_a_variable_wins_over_one_that_starts_with_an_underscore() -> None:
    _ = delta = tensor()
    assert paths(weakref.ref(delta)) == ["delta", "_"]


def test_the_nearest_function_wins() -> None:
    def inner(near: torch.Tensor) -> list[str]:
        return [name.text for name in search([near]).names[0]]

    far = tensor()
    assert inner(far) == ["near (local of inner)", "far (local of test_the_nearest_function_wins)"]


def test_a_named_item_wins_over_a_numbered_one() -> None:
    batch = {"images": tensor()}
    pool = [batch["images"]]
    assert paths(weakref.ref(pool[0])) == ["batch['images']", "pool[0]"]


def test_a_hidden_name_is_told_only_for_want_of_a_better_one() -> None:
    pool = {tensor()}
    target = weakref.ref(next(iter(pool)))
    assert paths(target) == ["pool.<element>"]
    delta = target()
    assert paths(target) == ["delta"] and delta is not None


def test_optimizer_state_and_gradients_are_named_after_their_parameter() -> None:
    model = net()
    opt = torch.optim.AdamW(model.parameters())
    model(torch.ones(3)).sum().backward()
    opt.step()
    weight = model[2].weight
    assert vars(opt)  # an instance whose `__dict__` was read keeps its attributes one level further down
    found = search([opt.state[weight]["exp_avg"], weight.grad, opt.state[weight]["step"]])
    first = [names[0] for names in found.names]
    assert [name.path for name in first] == [
        "opt.state[model.2.weight]['exp_avg']",
        "model.2.weight.grad",
        "opt.state[model.2.weight]['step']",
    ]
    assert [name.kind for name in first] == ["state", "gradient", "state"]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_more_names_than_asked_for(limit: int) -> None:
    a = b = c = d = tensor()
    assert paths(weakref.ref(a), limit=limit) == ["a", "b", "c"][:limit]
    assert b is c is d


def test_a_name_held_many_times_over_does_not_hide_the_module() -> None:
    model = net()
    history = [[parameter] for parameter in model.parameters() for _ in range(100)]
    assert paths(weakref.ref(model[0].weight))[0] == "model.0.weight" and history


def test_modules_and_optimizers_are_collected_with_their_names() -> None:
    model = net()
    opt = torch.optim.SGD(model.parameters())
    scratch: Any = collections.deque([{"ema": torch.nn.Linear(1, 1)}])
    found = search([], collect=(torch.nn.Module, torch.optim.Optimizer)).found
    mine = {
        name.path: each
        for each, name in found
        if name.scope == "test_modules_and_optimizers_are_collected_with_their_names"
    }
    assert mine == {
        "model": model,
        "model.0": model[0],
        "model.1": model[1],
        "model.2": model[2],
        "opt": opt,
        "scratch[0]['ema']": scratch[0]["ema"],
    }


def test_collecting_goes_by_the_type_and_asks_nobody() -> None:
    class Liar:
        @property
        def __class__(self) -> Any:
            raise AssertionError("evaluated")

    liar = Liar()
    assert [each for each, _ in search([], collect=(torch.nn.Module,)).found if type(each) is Liar] == []
    assert [name.path for each, name in search([], collect=(Liar,)).found] == ["liar"]
    assert type(liar) is Liar


def test_all_parameters_gradients_and_state_in_one_pass() -> None:
    model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16), 3, enable_nested_tensor=False)
    opt = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 1, 8)).sum().backward()
    opt.step()
    expected: dict[str, torch.Tensor] = {}
    for name, parameter in model.named_parameters():
        expected[f"model.{name}"] = parameter
        expected[f"model.{name}.grad"] = parameter.grad
        for key, state in opt.state[parameter].items():
            expected[f"opt.state[model.{name}][{key!r}]"] = state
    labels, hidden = list(expected), [weakref.ref(each) for each in expected.values()]
    expected.clear()
    del parameter, state
    found = search([ref() for ref in hidden])
    assert [names[0].path for names in found.names] == labels


def test_names_and_searches_are_plain_values() -> None:
    delta = tensor()
    first, second = (search([delta]) for _ in range(2))
    assert isinstance(first, Search) and isinstance(first.names[0][0], Name)
    assert first == second and hash(first) == hash(second)
    assert str(first.names[0][0]) == first.names[0][0].text
    assert pickle.loads(pickle.dumps(first)) == first
