"""A survey finds the models and optimizers around a graph by the variables that hold them."""

from __future__ import annotations

import sys
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
import torch

from backsight.snapshot import Survey, stepping, survey


def leaf() -> torch.Tensor:
    return torch.ones(3, requires_grad=True)


def net() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 1))


def loss_of(*models: torch.nn.Module) -> torch.Tensor:
    return sum((model(torch.ones(3)).sum() for model in models), torch.zeros(()))


# --- models


def test_only_models_that_own_a_leaf_are_found() -> None:
    model, bystander = net(), net()
    loss = loss_of(model)
    assert survey((loss,)).models == {"model": model}
    assert bystander is not None


def test_the_outermost_module_stands_for_those_inside_of_it() -> None:
    model = net()
    first = model[0]
    assert survey((loss_of(model),)).models == {"model": model}
    assert first is model[0]


def test_models_in_objects_and_containers_are_found() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.model = net()

    trainer, zoo = Trainer(), {"teacher": net()}
    assert survey((loss_of(trainer.model, zoo["teacher"]),)).models == {
        "trainer.model": trainer.model,
        "zoo['teacher']": zoo["teacher"],
    }


def test_two_models_of_one_name_are_both_found() -> None:
    """A generator's `model` in the caller, and a discriminator's in the function that it calls."""

    def inner(model: torch.nn.Module, other: torch.Tensor) -> dict[str, Any]:
        return dict(survey((loss_of(model) + other,)).models)

    model = net()
    discriminator = [net()]
    found = inner(discriminator.pop(), loss_of(model))
    assert found.pop("model (local of test_two_models_of_one_name_are_both_found)") is model
    assert list(found) == ["model"]


def test_a_module_that_never_called_init_does_no_harm() -> None:
    class Unfinished(torch.nn.Module):
        def __init__(self) -> None:
            pass

    unfinished, model = Unfinished(), net()
    assert survey((loss_of(model),)).models == {"model": model}
    assert unfinished is not None


def test_a_module_whose_attributes_raise_is_looked_through() -> None:
    class Hostile(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

        def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError

        modules = named_modules = children = parameters = named_parameters

    hostile = Hostile()
    loss = hostile.__dict__["_modules"]["layer"](torch.ones(3)).sum()
    found = survey((loss,))
    assert found.models == {"hostile": hostile}
    assert [each.name for each in found.graph.leaves] == ["hostile.layer.weight", "hostile.layer.bias"]


# --- optimizers


def owners(found: Survey) -> set[str | None]:
    return {each.owner for each in found.graph.leaves}


def test_optimizers_are_found_and_own_their_leaves() -> None:
    model = net()
    adam = torch.optim.Adam(model[0].parameters())
    sgd = torch.optim.SGD(model[1].parameters(), lr=0.1)
    found = survey((loss_of(model),))
    assert found.optimizers == {"adam": adam, "sgd": sgd}
    assert [each.owner for each in found.graph.leaves] == ["adam", "adam", "sgd", "sgd"]


def test_two_optimizers_of_one_name_are_both_found() -> None:
    def inner(other: torch.Tensor) -> tuple[list[str], set[str | None]]:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        found = survey((loss_of(model) + other,))
        assert found.optimizers["optimizer"] is optimizer
        return list(found.optimizers), owners(found)

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    far = "optimizer (local of test_two_optimizers_of_one_name_are_both_found)"
    names, owned_by = inner(loss_of(model))
    assert names == ["optimizer", far]
    assert owned_by == {"optimizer", far}
    assert optimizer.param_groups


def test_optimizers_of_two_calls_of_one_function_are_told_apart_by_number() -> None:
    def descend(depth: int, losses: list[torch.Tensor]) -> list[str]:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = [*losses, loss_of(model)]
        if depth:
            return descend(depth - 1, losses)
        assert optimizer.param_groups
        return list(survey((sum(losses),)).optimizers)

    text = "optimizer (local of descend)"
    assert descend(2, []) == ["optimizer", text, f"{text} #2"]


def test_a_wrapper_that_shares_the_groups_of_its_optimizer_is_one_with_it() -> None:
    class Accelerated(torch.optim.Optimizer):
        def __init__(self, optimizer: torch.optim.Optimizer) -> None:
            self.inner = optimizer

        @property
        def param_groups(self) -> Any:
            return self.inner.param_groups

    model = net()
    optimizer = Accelerated(torch.optim.SGD(model.parameters(), lr=0.1))
    found = survey((loss_of(model),))
    assert found.optimizers == {"optimizer": optimizer}
    assert owners(found) == {"optimizer"}


def test_an_unfinished_optimizer_does_no_harm() -> None:
    unfinished = object.__new__(torch.optim.SGD)
    model = net()
    assert owners(survey((loss_of(model),))) == {None}
    assert unfinished is not None


# --- frames of a traceback, and saved tensors


def test_variables_of_functions_that_have_ended_are_found_when_their_frames_are_given() -> None:
    def step() -> None:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        loss = loss_of(model)
        raise ValueError(loss)

    def frames_of(traceback: Any) -> list[FrameType]:
        return [traceback.tb_frame, *frames_of(traceback.tb_next)] if traceback else []

    try:
        step()
    except ValueError as error:
        found = survey((error.args[0],), frames=frames_of(sys.exc_info()[2]))
    assert (list(found.models), list(found.optimizers)) == (["model"], ["optimizer"])
    assert found.graph.root_names == ("loss",)


def test_modified_saved_tensors_are_named() -> None:
    x = leaf()
    weights = x * 2
    loss = weights.sin().sum()
    weights.mul_(2)
    found = survey((loss,))
    assert found.saved_names == {id(weights): "weights"}


@pytest.mark.parametrize("finite", [True, False])
def test_saved_tensors_that_are_not_finite_are_named_if_they_were_looked_at(finite: bool) -> None:
    x = leaf()
    ratio = x / torch.zeros(3)
    loss = ratio.sin().sum()
    assert ("ratio" in survey((loss,), finite=finite).saved_names.values()) is finite


def test_a_wrapper_without_hooks_of_its_own_stands_for_the_optimizer_inside() -> None:
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, optimizer: torch.optim.Optimizer) -> None:  # as Accelerate's, which does not call its base's
            self.optimizer = optimizer

    inside = torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=0.1)
    assert stepping(inside) is inside
    assert stepping(Wrapper(Wrapper(inside))) is inside
    inside.register_step_post_hook(lambda *_: None)
    assert len(vars(inside)["_optimizer_step_post_hooks"]) == 1  # by which they are told apart


def test_an_optimizer_inside_of_a_host_is_called_optimizer() -> None:
    class Trainer:
        def __init__(self, held: list[torch.optim.Optimizer]) -> None:
            self._connector = SimpleNamespace(optimizers=held)
            self._own = held[0]

    model = torch.nn.Linear(2, 1)
    trainer = Trainer([torch.optim.SGD(model.parameters(), lr=0.1)])
    assert list(survey((model(torch.ones(1, 2)).sum(),)).optimizers) == ["trainer._own"]
    del trainer._own
    inside = survey((model(torch.ones(1, 2)).sum(),))
    assert (list(inside.optimizers), owners(inside)) == (["optimizer"], {"optimizer"})
