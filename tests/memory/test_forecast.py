"""`forecast` takes a step however it is given, without touching anything, and says what it will need."""

import copy
import pickle
import random
from functools import partial

import numpy as np
import pytest
import torch
from steps import GPT, MLP, mlp, words
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

from backsight.memory import forecast


def test_the_model_the_optimizer_and_the_random_state_stay_as_they_are():
    model, batch = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    scheduler = OneCycleLR(optimizer, 0.1, total_steps=10)
    model(*batch).backward()
    optimizer.step()
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    state = pickle.dumps((optimizer.state_dict(), scheduler.state_dict()))
    drawn = torch.get_rng_state(), random.getstate(), np.random.get_state()

    def step():
        loss = model(*batch)
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        random.random(), np.random.rand(), torch.rand(3)

    forecast(step)
    forecast(model, batch, optimizer)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert all(torch.equal(p.grad, before) for p, before in zip(model.parameters(), gradients, strict=True))
    assert pickle.dumps((optimizer.state_dict(), scheduler.state_dict())) == state
    assert torch.equal(torch.get_rng_state(), drawn[0])
    assert random.getstate() == drawn[1]
    assert all(np.array_equal(a, b) for a, b in zip(np.random.get_state(), drawn[2], strict=True))


def test_what_a_step_appends_does_not_land_in_the_programs_lists():
    model, batch = mlp()
    losses = []

    def step():
        loss = model(*batch)
        loss.backward()
        losses.append(loss.detach())

    forecast(step)
    assert losses == []


def test_a_step_that_fails_leaves_the_modes_of_the_program_alone():
    def step():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        forecast(step)
    assert type(torch.ones(2)) is torch.Tensor


def test_a_forecast_can_be_pickled_and_keeps_no_tensor():
    foretold = forecast(*mlp())
    again = pickle.loads(pickle.dumps(foretold))
    assert again.peak == foretold.peak
    assert str(again) == str(foretold)


# What can be given.


def test_a_model_that_is_built_in_the_forecast_needs_no_memory():
    foretold = forecast(lambda: MLP(*[60_000] * 4), lambda: (torch.zeros(1, 60_000), torch.zeros(1, 60_000)))
    assert foretold.variants[0].memory.by_kind["parameters"] == 3 * (60_000 * 60_000 + 60_000) * 4  # 43 GB


def test_layers_that_are_deep_copies_need_no_more_in_a_model_that_the_forecast_builds():
    def build():
        layer = nn.Linear(64, 64)
        return nn.Sequential(*[copy.deepcopy(layer) for _ in range(4)], nn.Linear(64, 1))

    batch = torch.zeros(1, 64)
    assert forecast(build, batch, torch.optim.SGD).peak == forecast(build(), batch, torch.optim.SGD).peak


def test_a_model_on_the_meta_device_is_forecast_as_a_real_one():
    model, batch = mlp()
    with torch.device("meta"):
        empty = MLP(64, 64, 64)
    assert forecast(empty, batch).peak == forecast(model, batch).peak


def test_all_ways_to_give_a_step_agree():
    model, batch = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step():
        loss = model(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    peaks = {
        forecast(step).peak,
        forecast(model, batch, optimizer).peak,
        forecast(model, batch, sgd).peak,
        forecast(lambda: MLP(64, 64, 64), batch, sgd).peak,
        forecast(lambda: (model, batch, optimizer)).peak,
        forecast(lambda: {"model": MLP(64, 64, 64), "batch": batch, "optimizer": sgd}).peak,
    }
    assert len(peaks) == 1


class Trainer:
    def __init__(self) -> None:
        self.model, self.batch = mlp()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.steps = 0

    def step(self) -> None:
        self.model(*self.batch).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps += 1


def test_a_step_can_be_a_method():
    trainer = Trainer()
    foretold = forecast(trainer.step)
    assert foretold.memory.by_kind["parameters"] == sum(p.nbytes for p in trainer.model.parameters())
    assert trainer.steps == 0
    assert not trainer.optimizer.state


shared_model = shared_batch = shared_optimizer = None  # of the test below


def loss_of_globals() -> torch.Tensor:
    return shared_model(*shared_batch)


def step_of_globals() -> None:
    loss_of_globals().backward()
    shared_optimizer.step()


def test_a_step_can_use_the_globals_of_its_module_also_through_other_functions(monkeypatch):
    model, batch = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    for name, value in {"shared_model": model, "shared_batch": batch, "shared_optimizer": optimizer}.items():
        monkeypatch.setitem(globals(), name, value)  # for this test alone: others look for optimizers that are alive
    assert forecast(step_of_globals).variants[1].way.implementation == "foreach"
    assert not optimizer.state
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("wrap", [tuple, list, lambda batch: dict(zip("xy", batch, strict=True))])
def test_a_batch_is_a_tuple_a_list_or_a_dict(wrap):
    model, batch = mlp()
    assert forecast(model, wrap(batch)).peak == forecast(model, batch).peak


@pytest.mark.parametrize(
    "pack", [lambda loss: (loss, None), lambda loss: {"loss": loss}, lambda loss: type("Output", (), {"loss": loss})()]
)
def test_a_loss_is_found_in_what_the_model_returns(pack):
    class Packed(MLP):
        def forward(self, x, y):
            return pack(super().forward(x, y))

    _, batch = mlp()
    assert forecast(Packed(64, 64, 64), batch).peak > 0


def test_a_program_written_for_cuda_is_imagined_without_it():
    def step():
        model = MLP(64, 64, 64).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.randn(8, 64, device="cuda")
        model(x, torch.zeros(8, 64).to("cuda:0")).backward()
        optimizer.step()

    with torch.device("cpu"):
        assert forecast(step, device="cuda").peak > 0


def test_half_the_bytes_of_weights_halve_the_peak():
    model, batch = mlp()
    full, half = forecast(model, batch), forecast(model, batch, dtype="bfloat16")
    assert half.memory.by_kind["parameters"] == full.memory.by_kind["parameters"] // 2
    assert next(model.parameters()).dtype is torch.float32


def test_autocast_changes_what_is_saved_and_not_the_weights():
    full, mixed = (forecast(GPT(), words(), autocast=each, variants=False) for each in (None, torch.bfloat16))
    assert mixed.memory.by_kind["parameters"] == full.memory.by_kind["parameters"]
    assert mixed.peak < full.peak
