"""BS103 where several backwards make up a step: under a watch that sees what is written in place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from audits import codes, mlp, one
from torch import nn

import backsight as bs
from backsight.diagnosis import audit_at

Between = Callable[[nn.Module, torch.optim.Optimizer], None]


def accumulating(
    zero: Between, batches: int = 4, before_step: Between = lambda model, optimizer: None
) -> list[bs.Report]:
    """Train with several backwards for each step, as `backsight run` watches it; audit the first backward of each."""
    torch.manual_seed(0)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    reports: list[bs.Report] = []
    with bs.watch(level="exact"):
        for _ in range(4):
            for batch in range(batches):
                output = model(torch.randn(3, 4))
                loss = output.square().mean() / batches
                if not batch:
                    zero(model, optimizer)
                    output.grad_fn.register_prehook(
                        lambda _, loss=loss: reports.append(audit_at(("here", 3), (loss,), moment="during backward"))
                    )
                loss.backward()
            before_step(model, optimizer)
            optimizer.step()
    return reports


def nothing(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    pass


def clip(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 1e-3)


@pytest.mark.parametrize("batches", [1, 2, 4])
@pytest.mark.parametrize("before_step", [nothing, clip])
def test_forgotten_zeroing_shows_by_the_third_step(batches: int, before_step: Between) -> None:
    reports = accumulating(nothing, batches, before_step)
    assert [codes(report) for report in reports] == [[], [], ["BS103"], ["BS103"]]
    assert one(reports[-1], "BS103").title == "4 gradients have not been zeroed since optimizer.step()."


def zero_grad(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()


def zero_in_place(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad(set_to_none=False)


def zero_each(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.zero_()


def zero_data(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.data.zero_()


def times_zero(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad *= 0


def decay(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(0.5)  # on purpose: a momentum of one's own


@pytest.mark.parametrize("zero", [zero_grad, zero_in_place, zero_each, zero_data, times_zero, decay])
@pytest.mark.parametrize("batches", [1, 2, 4])
@pytest.mark.parametrize("before_step", [nothing, clip])
def test_deliberate_accumulation_is_in_order(zero: Between, batches: int, before_step: Between) -> None:
    assert [codes(report) for report in accumulating(zero, batches, before_step)] == [[]] * 4


def adversarial(zero: Between) -> list[list[str]]:
    """Train a GAN, whose two losses both leave gradients in the critic; return the codes of each audit of its loss."""
    torch.manual_seed(0)
    generator, critic = mlp(), nn.Linear(1, 1)
    ours = torch.optim.SGD(generator.parameters(), lr=0.01)
    theirs = torch.optim.SGD(critic.parameters(), lr=0.01)
    found: list[list[str]] = []
    with bs.watch(level="exact"):
        for _ in range(4):
            fake = generator(torch.randn(3, 4))
            zero(critic, theirs)
            output = critic(fake.detach())
            loss = output.square().mean() - critic(torch.randn(3, 1)).mean()
            output.grad_fn.register_prehook(
                lambda _, loss=loss: found.append(codes(audit_at(("here", 3), (loss,), moment="during backward")))
            )
            loss.backward()
            theirs.step()
            ours.zero_grad()
            critic(fake).mean().backward()
            ours.step()
    return found


def test_a_critic_that_is_never_zeroed_shows_though_two_losses_reach_it() -> None:
    assert adversarial(nothing) == [[], [], ["BS103"], ["BS103"]]


@pytest.mark.parametrize("zero", [zero_grad, zero_in_place, zero_each, zero_data, times_zero, decay])
def test_what_the_other_loss_leaves_in_the_critic_is_in_order_if_it_is_zeroed(zero: Between) -> None:
    assert adversarial(zero) == [[]] * 4
