"""What only one program does besides: draws of an evaluation, a buffer that is not restored, a buffer cast down."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import backsight as bs
from backsight.traces import Tracer


class Dropping(nn.Module):
    def __init__(self, always):
        super().__init__()
        self.first, self.last, self.always = nn.Linear(6, 8), nn.Linear(8, 1), always

    def forward(self, x):
        return self.last(F.dropout(self.first(x), 0.3, self.always or self.training))


class Queued(nn.Module):
    """A model with a memory of what it has seen, which a state_dict holds or does not hold."""

    def __init__(self, persistent=True, dtype=torch.float32):
        super().__init__()
        self.net = nn.Linear(4, 4)
        self.register_buffer("queue", torch.randn(4, 8), persistent=persistent)
        self.register_buffer("scales", torch.linspace(0.1, 0.9, 4).to(dtype))

    def forward(self, x):
        y = self.net(x)
        scores = y @ self.queue.clone() + (y * self.scales.float()).sum(1, keepdim=True)
        with torch.no_grad():
            self.queue.copy_(torch.cat([y.t()[:, :3], self.queue[:, 3:]], 1))
        return scores.square().mean()


class Quantized(nn.Module):
    """Two branches that are pulled to each other, one more than the other; both detach."""

    def __init__(self, swapped):
        super().__init__()
        self.one, self.other, self.swapped = nn.Linear(5, 3), nn.Linear(5, 3), swapped

    def forward(self, x):
        y, z = self.one(x), self.other(x)
        if self.swapped:
            pull, commit = F.mse_loss(y.detach(), z), F.mse_loss(y, z.detach())
            return pull + 0.25 * commit
        return F.mse_loss(y, z.detach()) + 0.25 * F.mse_loss(y.detach(), z)


def dropping(path, always):
    torch.manual_seed(0)
    model, generator = Dropping(always), torch.Generator().manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with bs.trace(path, steps=(0, 1), model=model):
        for _ in range(3):
            x = torch.randn(4, 6, generator=generator)
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                model(torch.ones(7, 6))
            model.train()
    return path


def resumed(path, persistent, dtype=torch.float32, steps=(1, 2), again=True):
    torch.manual_seed(0)
    model, generator = Queued(persistent, dtype), torch.Generator().manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with bs.trace(path, steps=steps):
        for step in range(3):
            if step == 2 and again:
                state = model.state_dict()
                torch.manual_seed(0)
                model = Queued(persistent, dtype)
                model.load_state_dict(state)
                optimizer = torch.optim.SGD(model.parameters(), 0.1)
            optimizer.zero_grad()
            model(torch.randn(5, 4, generator=generator)).backward()
            optimizer.step()
    return path


def quantized(path, swapped):
    torch.manual_seed(0)
    model = Quantized(swapped)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with bs.trace(path, steps=(0,), model=model):
        model(torch.randn(6, 5)).backward()
        optimizer.step()
    return path


def test_dropout_that_is_on_in_the_evaluation_of_one_program_is_what_makes_later_draws_differ(tmp_path):
    difference = bs.diff(dropping(tmp_path / "a", False), dropping(tmp_path / "b", True))
    assert difference.first.code == "BS506", str(difference)
    assert "Only B draws bernoulli_ of the shape [7, 8] here" in str(difference)
    assert "training=self.training" in difference.first.fix


def test_a_buffer_that_a_resumed_training_does_not_restore_is_named(tmp_path):
    difference = bs.diff(resumed(tmp_path / "a", True), resumed(tmp_path / "b", False))
    assert difference.first.code == "BS504" and "queue" in difference.first.title, str(difference)
    assert "It agreed at the end of step 1" in str(difference)


def test_a_buffer_that_is_not_restored_is_named_beside_a_training_that_was_not_interrupted(tmp_path):
    difference = bs.diff(resumed(tmp_path / "a", True, again=False), resumed(tmp_path / "b", False))
    assert difference.first.code == "BS504" and "buffer model.queue" in difference.first.title, str(difference)


def test_a_buffer_of_a_coarser_dtype_is_precision(tmp_path):
    coarse = resumed(tmp_path / "b", True, torch.bfloat16, steps=(0, 1))
    difference = bs.diff(resumed(tmp_path / "a", True, steps=(0, 1)), coarse)
    assert difference.cls == "precision" and difference.first.code == "BS502", str(difference)
    assert "It is float32 in A and bfloat16 in B." in str(difference)


def test_a_factor_on_the_other_of_two_losses_is_not_told_as_a_detach_that_both_programs_have(tmp_path):
    difference = bs.diff(quantized(tmp_path / "a", False), quantized(tmp_path / "b", True))
    assert difference.cls == "semantics" and "detach" not in difference.first.title, str(difference)


class Renamed(nn.Module):
    """The layers of a `Sequential` with dropout, under other names."""

    def __init__(self):
        super().__init__()
        self.fc1, self.drop, self.fc2 = nn.Linear(6, 8), nn.Dropout(0.3), nn.Linear(8, 1)

    def forward(self, x):
        return self.fc2(self.drop(torch.relu(self.fc1(x))))


def left_in_evaluation(path, model, evaluates=True):
    torch.manual_seed(0)
    model = model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    if evaluates:
        model.eval()
    with bs.trace(path, steps=(0,), model=model):
        model(torch.ones(5, 6)).square().mean().backward()
        optimizer.step()
    return path


def sequential():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))


def test_a_renamed_model_in_evaluation_mode_is_told_as_that_and_not_as_draws(tmp_path):
    ours = left_in_evaluation(tmp_path / "a", sequential, evaluates=False)
    difference = bs.diff(ours, left_in_evaluation(tmp_path / "b", Renamed))
    assert difference.first.code == "BS501", str(difference)
    assert "Module model.2 is in training mode in A and in evaluation mode in B." in str(difference)
    assert bs.diff(ours, left_in_evaluation(tmp_path / "c", Renamed, evaluates=False)).cls == "same"


class Scaled(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


@pytest.mark.parametrize("nothing", [nn.Identity, nn.Flatten])
def test_a_batch_that_is_prepared_before_the_first_step_has_the_line_that_did(tmp_path, nothing):
    def trained(name, scales):
        tracer = Tracer(tmp_path / name, (0,), values=False, say=pytest.fail, summaries=True)
        tracer.start(at_call=True)
        torch.manual_seed(0)
        model = nn.Sequential(Scaled(2.0) if scales else nothing(), nn.Linear(6, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x = torch.linspace(0, 1, 30).reshape(5, 6)
        if not scales:
            x = x - 0.25
        model(x).square().mean().backward()
        optimizer.step()
        tracer.close()
        return tracer.path

    difference = bs.diff(trained("a", True), trained("b", False))
    assert difference.cls == "semantics", str(difference)
    assert "  x = x - 0.25\n" in str(difference), str(difference)


def in_turns(path, zeroed):
    """Train a generator and its judge, which also gets what the generator's backward pass leaves."""
    torch.manual_seed(0)
    maker, judge = nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (judge, maker)]
    with bs.trace(path, steps=(0, 1, 2)):
        for _ in range(3):
            noise = torch.ones(5, 3)
            if zeroed:
                optimizers[0].zero_grad()
            judge(maker(noise).detach()).square().mean().backward()
            optimizers[0].step()
            optimizers[1].zero_grad()
            (1 - judge(maker(noise))).square().mean().backward()
            optimizers[1].step()
    return path


def test_a_gradient_that_only_one_program_zeroes_is_told_as_that(tmp_path):
    difference = bs.diff(in_turns(tmp_path / "a", True), in_turns(tmp_path / "b", False))
    assert difference.first.code == "BS507" and difference.first.fix.startswith("Call zero_grad()"), str(difference)
    assert "Only B adds to a gradient of " in str(difference), str(difference)
    assert "judge(maker(noise).detach()).square().mean().backward()" in str(difference.first), str(difference)


def resumed_twice(path, momentum):
    """Resume a training into a new model, with the old one still there."""
    torch.manual_seed(0)
    old = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(old.parameters(), 0.1, momentum=0.9)
    x, model, models = torch.randn(6, 4), old, [old]
    with bs.trace(path, steps=(1, 2)):
        for step in range(3):
            if step == 2:
                models.append(model := nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
                model.load_state_dict(old.state_dict())
                state = optimizer.state_dict()
                optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
                if momentum:
                    optimizer.load_state_dict(state)
                    old.zero_grad()
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    return path


def test_gradients_that_an_old_model_still_has_are_no_difference(tmp_path):
    difference = bs.diff(resumed_twice(tmp_path / "a", True), resumed_twice(tmp_path / "b", False))
    assert difference.first.code == "BS508", str(difference)
    assert "only A calls mul_(0.9)" in difference.first.title and "shares one weight" not in str(difference)
