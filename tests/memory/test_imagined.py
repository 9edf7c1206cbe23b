"""A step runs on fake copies of what it names, and the originals notice nothing."""

import os
from functools import partial
from os import environ

import pytest
import torch
from steps import GPT, MLP, words
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode

import backsight as bs
from backsight.memory import CannotForecast, forecast
from backsight.memory.imagined import Imagination
from backsight.memory.on_cpu import OnCPU


def imagined(value):
    """Return the copy of a value."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, OnCPU(mode):
        return Imagination(mode).copy(value)


@pytest.fixture
def imagination():
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, OnCPU(mode):
        yield Imagination(mode)


# Copies


def test_views_of_one_storage_are_copied_as_views_of_one():
    drawn = torch.randint(0, 9, (4, 65))
    inputs, target = imagined((drawn[:, :-1], drawn[:, 1:]))
    assert isinstance(inputs, FakeTensor)
    assert inputs.untyped_storage()._cdata == target.untyped_storage()._cdata
    assert inputs.untyped_storage().nbytes() == drawn.nbytes


def test_a_tied_weight_stays_tied_and_the_optimizer_has_the_copies():
    model = GPT()
    model.head.weight = model.emb.weight
    optimizer = torch.optim.AdamW(model.parameters())
    copied, its_optimizer = imagined((model, optimizer))
    assert copied.head.weight is copied.emb.weight
    assert copied.head.weight is not model.head.weight
    assert [id(p) for p in its_optimizer.param_groups[0]["params"]] == [id(p) for p in copied.parameters()]
    assert type(copied.blocks) is nn.ModuleList


def test_the_modes_of_a_forecast_are_not_asked_what_a_fake_tensor_is_made_from():
    asked, weight, mode = [], torch.ones(3, 3), FakeTensorMode(allow_non_fake_inputs=True)

    class Asked(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            asked.append(func)
            return func(*args, **(kwargs or {}))

    with mode, Asked():
        Imagination(mode).copy(weight)
    assert torch.Tensor.is_sparse.__get__ not in asked


def test_a_gradient_that_is_there_is_copied_too():
    layer = nn.Linear(3, 3)
    layer(torch.ones(3)).sum().backward()
    copied = imagined(layer)
    assert isinstance(copied.weight.grad, FakeTensor)
    assert type(layer.weight.grad) is torch.Tensor


def test_containers_are_copied_and_what_holds_no_tensor_is_shared():
    held = {"tensors": [torch.ones(2)], "words": ["a"], "path": os.path, "number": 3, "module": os}
    copied = imagined(held)
    assert copied is not held
    assert copied["words"] == ["a"]
    assert copied["words"] is not held["words"]
    assert copied["module"] is os


def test_the_environment_of_the_process_is_left_alone():
    before = dict(os.environ)
    imagined([environ])
    assert dict(os.environ) == before


def test_things_that_refer_to_each_other_are_copied_once():
    class Part:
        def __init__(self):
            self.weight, self.parts = torch.ones(2), [self]

    part = Part()
    copied = imagined(part)
    assert copied.parts[0] is copied
    assert isinstance(copied.weight, FakeTensor)


def test_the_value_of_a_counter_is_kept():
    copied = imagined(torch.tensor(7.0))
    with copied.fake_mode:
        assert copied.item() == 7.0


def test_a_variable_of_a_closure_without_a_value_yet_stays_so():
    def make():
        def function():
            return later

        copied = imagined(function)
        later = 3
        return function, copied

    function, copied = make()
    assert function() == 3
    with pytest.raises(NameError):
        copied()


# The CPU instead of other devices


@pytest.mark.parametrize(
    "move",
    [
        lambda m: m.cuda(),
        lambda m: m.to("cuda:1"),
        lambda m: m.to(torch.device("cuda"), torch.bfloat16),
        nn.Module.half,
    ],
)
def test_a_model_can_be_moved_and_cast_and_stays_on_the_cpu(imagination, move):
    model = move(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}
    model = move(imagination.copy(nn.Linear(4, 4)))
    assert model.weight.device.type == "cpu"
    assert model.weight.dtype in (torch.float32, torch.bfloat16, torch.float16)


def test_new_tensors_on_another_device_are_on_the_cpu(imagination):
    with torch.device("cuda"):
        assert torch.ones(2).device.type == "cpu"
    assert torch.empty_like(torch.ones(2), device="cuda").device.type == "cpu"
    assert torch.ones(2, device="meta").device.type == "meta"


def test_what_is_no_device_is_refused_by_torch_itself(imagination):
    with pytest.raises(RuntimeError, match="bananas"):
        torch.ones(2, device="bananas")


# Hooks


def test_a_hook_of_the_program_runs_on_the_copy_and_fills_no_list_of_its_own():
    model, outputs = MLP(8, 8, 8), []
    model.layers[0].register_forward_hook(lambda module, args, output: outputs.append(output))
    forecast(model, (torch.randn(2, 8), torch.randn(2, 8)))
    assert outputs == []


def test_a_recording_that_is_attached_records_nothing_of_a_forecast(tmp_path):
    model, batch = MLP(8, 8, 8), (torch.randn(2, 8), torch.randn(2, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        model(*batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    with bs.record(model, optimizer, run=tmp_path / "run"):
        step()
        forecast(step)
        forecast(model, batch, optimizer)
        step()
    assert len(bs.open_run(tmp_path / "run").steps) == 2


def test_a_release_written_by_hand_is_forecast_as_one():
    model, batch = MLP(*[256] * 30), (torch.randn(4, 256), torch.randn(4, 256))
    optimizers = {p: torch.optim.AdamW([p], fused=True) for p in model.parameters()}

    def use(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(use)

    by_hand = forecast(lambda: model(*batch).backward(), variants=False)
    ordinary = forecast(MLP(*[256] * 30), batch, partial(torch.optim.AdamW, fused=True), release=0, variants=False)
    assert by_hand.peak == pytest.approx(ordinary.peak, rel=0.02)
    assert not any(optimizer.state for optimizer in optimizers.values())


# What surrounds a step


def test_schedulers_clipping_and_accumulation_are_part_of_the_step():
    model, batch = GPT(), words()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)

    def step():
        for _ in range(2):
            (model(*batch) / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()

    assert forecast(step, variants=False).peak > forecast(model, batch, variants=False).peak
    assert scheduler.last_epoch == 0


def test_a_loader_of_the_program_is_read_as_it_is():
    data = torch.utils.data.TensorDataset(torch.randn(8, 8), torch.randn(8, 8))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    model = MLP(8, 8)

    def step():
        for batch in loader:
            model(*batch).backward()

    assert forecast(step).peak > 0


def test_a_scaler_of_gradients_reads_values_and_is_refused():
    model, batch = MLP(8, 8), (torch.randn(2, 8), torch.randn(2, 8))
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu")

    def step():
        scaler.scale(model(*batch)).backward()
        scaler.step(optimizer)
        scaler.update()

    with pytest.raises(CannotForecast, match=r"at `scaler.step\(optimizer\)`"):
        forecast(step)
