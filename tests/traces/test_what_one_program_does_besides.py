"""What only one program does besides: draws of an evaluation, a buffer that is not restored, a buffer cast down."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

import backsight as bs


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
    assert difference.first.code == "BS504" and "buffer queue" in difference.first.title, str(difference)


def test_a_buffer_of_a_coarser_dtype_is_precision(tmp_path):
    coarse = resumed(tmp_path / "b", True, torch.bfloat16, steps=(0, 1))
    difference = bs.diff(resumed(tmp_path / "a", True, steps=(0, 1)), coarse)
    assert difference.cls == "precision" and difference.first.code == "BS502", str(difference)
    assert "It is float32 in A and bfloat16 in B." in str(difference)


def test_a_factor_on_the_other_of_two_losses_is_not_told_as_a_detach_that_both_programs_have(tmp_path):
    difference = bs.diff(quantized(tmp_path / "a", False), quantized(tmp_path / "b", True))
    assert difference.cls == "semantics" and "detach" not in difference.first.title, str(difference)
