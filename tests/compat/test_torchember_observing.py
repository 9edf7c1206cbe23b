"""torchEmber observes a model, does not disturb it, and leaves nothing behind."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from backsight.compat.torchember import torchEmber

pytestmark = pytest.mark.usefixtures("home")

X = torch.linspace(-1, 1, 6).reshape(2, 3)


def rows(te: torchEmber, **of: str) -> list[dict[str, Any]]:
    return [row for row in te.t.lines() if all(row[key] == value for key, value in of.items())]


def places(te: torchEmber, **of: str) -> list[tuple[str, str]]:
    return [(row["ttype"], row["tname"]) for row in rows(te, **of)]


def traces(model: nn.Module) -> list[str]:
    """Everything that could have been left on a model."""
    return [
        f"{name}: {key}"
        for name, module in model.named_modules()
        for key, held in vars(module).items()
        if key == "disarm" or ("hook" in key and held)
    ]


# --- disarm


@pytest.mark.parametrize("disarm", [lambda te: te.disarm(), lambda te: te.model.disarm()], ids=["te", "model"])
def test_disarming_leaves_nothing_behind(model: nn.Module, disarm: Any) -> None:
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    te = torchEmber(model)
    assert traces(model)
    disarm(te)
    model(X)
    assert traces(model) == []
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before
    assert rows(te) == []


def test_a_rearmed_model_is_looked_at_anew(model: nn.Module) -> None:
    te = torchEmber(model)
    model[1] = nn.Tanh()
    te.rearm()
    model(X)
    assert len(rows(te, module="model(Sequential).1(Tanh)")) == 2
    assert te.mod_tree()["children"][1]["short"] == "1(Tanh)"


def test_arming_twice_records_once(model: nn.Module) -> None:
    te = torchEmber(model)
    te.arm()
    model(X)
    assert len(rows(te, module="model(Sequential)", ttype="input")) == 1


def test_a_second_torchember_takes_the_place_of_the_first(model: nn.Module) -> None:
    first, second = torchEmber(model), torchEmber(model)
    model(X)
    assert first.fname != second.fname
    assert not rows(first)
    assert rows(second)
    first.disarm()
    assert model.disarm() is model
    assert traces(model) == []


def test_a_disarm_of_the_users_own_is_let_be() -> None:
    class Bomb(nn.Module):
        def disarm(self) -> str:
            return "cut the red wire"

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    bomb = Bomb()
    te = torchEmber(bomb)
    assert bomb.disarm() == "cut the red wire"
    bomb(X)
    te.disarm()
    assert len(rows(te)) == 2
    assert bomb.disarm() == "cut the red wire"

    held = nn.ModuleDict({"disarm": nn.Linear(1, 1)})
    torchEmber(held).disarm()
    assert set(held) == {"disarm"}


# --- copies


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda model: pickle.loads(pickle.dumps(model)),
        lambda model: copy.deepcopy(copy.deepcopy(model)),
        lambda model: pickle.loads(pickle.dumps(copy.deepcopy(model))),
    ],
    ids=["deepcopy", "pickle", "deepcopy of a deepcopy", "pickle of a deepcopy"],
)
def test_a_copy_of_an_armed_model_is_a_model_that_is_not_recorded(model: nn.Module, copied: Any) -> None:
    te = torchEmber(model)
    twin = copied(model)
    assert torch.equal(twin(X), model(X))
    assert len(rows(te, module="model(Sequential)", ttype="input")) == 1
    assert twin.disarm() is twin
    model(X)
    assert len(rows(te, module="model(Sequential)", ttype="input")) == 2


def test_a_copy_can_be_armed_and_disarmed_itself(model: nn.Module) -> None:
    torchEmber(model)
    twin = copy.deepcopy(model)
    te = torchEmber(twin)
    twin(X)
    assert rows(te)
    assert twin.disarm() is twin


def test_a_pickle_of_an_armed_model_names_nothing_of_ours(model: nn.Module) -> None:
    torchEmber(model)
    assert b"backsight" not in pickle.dumps(model)
    assert set(model.state_dict()) == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_a_model_that_holds_its_torchember_is_copied_and_pickled(model: nn.Module) -> None:
    te = torchEmber(model)
    model.te = te
    model(X)
    assert copy.deepcopy(model).te is te
    there = pickle.loads(pickle.dumps(model)).te
    there.arm()
    there.log_model()
    there.disarm()
    assert there.model is None
    assert there.t.lines() == te.t.lines()


def test_neither_tensors_nor_the_model_are_kept_alive() -> None:
    model = nn.Sequential(nn.Linear(3, 1))
    te = torchEmber(model)
    x = X.clone()
    out = model(x)
    alive = [weakref.ref(x), weakref.ref(out)]
    del x, out
    assert [ref() for ref in alive] == [None, None]
    del model
    gc.collect()
    assert te.model is None
    te.rearm()
    te.log_model()


# --- what is no call of the training


def test_recomputation_in_a_backward_pass_is_no_call(model: nn.Module) -> None:
    te = torchEmber(model)
    checkpoint(model, X.requires_grad_(False), use_reentrant=False).sum().backward()
    assert len(rows(te, module="model(Sequential)", ttype="input")) == 1


def test_modules_that_a_metric_calls_are_no_calls(model: nn.Module) -> None:
    te = torchEmber(model)
    te.how_record_out(lambda tensor: {"again": model(X).sum().item()})
    model(X)
    assert len(rows(te, module="model(Sequential)", ttype="input")) == 1


def test_calls_under_transforms_are_not_recorded(model: nn.Module) -> None:
    te = torchEmber(model)
    torch.func.vmap(model)(X)
    assert not rows(te)


def test_compiled_models_compile_without_breaks(model: nn.Module) -> None:
    model[1].inplace = False
    torchEmber(model)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert torch.allclose(compiled(X), copy.deepcopy(model)(X))
    torch._dynamo.reset()


def test_a_part_that_is_called_by_itself_is_recorded(model: nn.Module) -> None:
    te = torchEmber(model)
    model[0](X)
    assert places(te) == [("input", "input"), ("weight", "weight_0"), ("weight", "weight_1"), ("output", "output_0")]


def test_a_forward_that_raises_ends_its_pass_with_what_it_has_done(model: nn.Module) -> None:
    te = torchEmber(model)
    with pytest.raises(RuntimeError):
        model(torch.ones(2, 5))
    model(X)
    assert len(rows(te, module="model(Sequential)", ttype="input")) == 2
    assert sum(row["ttype"] == "input" for row in te.t.latest_line_list()) == 4
    assert te.mt_log[0] == "enter model(Sequential)"
    assert len(te.mt_log) == 8


def test_a_forked_process_records_nothing(model: nn.Module) -> None:
    te = torchEmber(model)
    model[0](X)  # its rows are held back until more come, or they are read
    child = os.fork()
    if child == 0:
        model(X)
        te.log_model()
        te.t.lines()
        te.disarm()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(rows(te)) == 4


def test_traces_and_exports_of_an_armed_model_hold_nothing_of_ours(model: nn.Module) -> None:
    te = torchEmber(model)
    assert torch.equal(torch.jit.trace(model, X)(X), torch.export.export(model, (X,)).module()(X))
    assert torch.equal(torch.fx.symbolic_trace(model)(X), model(X))
    te.t.lines()


def test_a_model_that_is_called_by_several_threads_loses_no_row(model: nn.Module) -> None:
    model.eval()
    te = torchEmber(model)
    batches = torch.arange(1, 201).float()[:, None, None] * X
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(model, batches))
    given = rows(te, module="model(Sequential)", ttype="input")
    assert sorted(row["max"] for row in given) == pytest.approx([float(n) for n in range(1, 201)])
    assert len(rows(te)) == 200 * (4 * 2 + 4)
