"""Trainings that no optimizer of PyTorch steps: where their steps end, and what is said where they do not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import backsight as bs


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))


def batches(count):
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(16, 6, generator=generator) for _ in range(count)]


def with_pytorch(model, loss, state):
    optimizer = state.setdefault("optimizer", torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def with_grad(model, loss, state, rate=0.1):
    grads = torch.autograd.grad(loss, [*model.parameters()])
    with torch.no_grad():
        for k, (parameter, grad) in enumerate(zip(model.parameters(), grads, strict=True)):
            state[k] = grad.clone() if k not in state else state[k].mul_(0.9).add_(grad)
            parameter.sub_(rate * state[k])


def with_data(model, loss, state):
    loss.backward()
    for k, parameter in enumerate(model.parameters()):
        state[k] = parameter.grad.clone() if k not in state else state[k].mul_(0.9).add_(parameter.grad)
        parameter.data.add_(state[k], alpha=-0.1)
        parameter.grad.zero_()


def with_new_weights(model, loss, state):
    grads = torch.autograd.grad(loss, [*model.parameters()])
    for (name, parameter), grad in zip([*model.named_parameters()], grads, strict=True):
        owner = model.get_submodule(name.rpartition(".")[0])
        setattr(owner, name.rpartition(".")[2], nn.Parameter((parameter - 0.1 * grad).detach()))


def traced(path, update, steps=(0, 1), **how):
    model, state = network(), {}
    with bs.trace(path, steps=steps) as trace:
        for x in batches(4):
            loss = (model(x).squeeze(1) - x.sum(1)).square().mean()
            update(model, loss, state, **how)
    return bs.open_trace(trace.path)


@pytest.mark.parametrize("update", [with_grad, with_data])
def test_a_step_ends_where_its_parameters_have_been_written_to(tmp_path, update):
    whole = traced(tmp_path / "pytorch", with_pytorch)
    by_hand = traced(tmp_path / "by hand", update)
    assert by_hand.whole == whole.whole == (0, 1)
    difference = bs.diff(whole, by_hand)
    assert difference.cls in ("same", "noise")
    losses = [each.losses for each in difference.steps]
    assert len(losses) == 2 and all(ours == pytest.approx(theirs, rel=1e-6) for ours, theirs in losses)
    assert any("no optimizer of PyTorch steps" in note for note in difference.notes)


def test_another_update_by_hand_is_told(tmp_path):
    difference = bs.diff(traced(tmp_path / "a", with_pytorch), traced(tmp_path / "b", with_grad, rate=0.2))
    assert difference.cls == "semantics"
    assert difference.steps[0].origins[0].code == "BS508"
    places = {each.place.text for each in difference.steps[0].origins[0].origin.only_b}
    assert places <= {"parameter.sub_(rate * state[k])"}


def test_a_step_of_two_networks_ends_after_both(tmp_path):
    made, judge = network(), nn.Linear(1, 1)
    with bs.trace(tmp_path / "two", steps=(0, 1)):
        for x in batches(3):
            loss = judge(made(x).detach()).mean() - judge(x[:, :1]).mean()
            with_grad(judge, loss, {})
            loss = -judge(made(x)).mean()
            with_grad(made, loss, {})
    held = bs.open_trace(tmp_path / "two")
    assert held.whole == (0, 1)
    in_first = [each for each in held.operations if each.step == 0 and each.op == "module" and each.module == ""]
    assert len(in_first) == 2


def test_what_only_one_program_ended_is_not_called_the_same(tmp_path):
    one, other = traced(tmp_path / "a", with_pytorch, (0,)), traced(tmp_path / "b", with_new_weights, (0,))
    assert other.whole == ()
    difference = bs.diff(one, other)
    assert difference.cls in ("same", "noise")
    assert difference.uncompared == "step 0 of B did not end, so its update was not compared"
    assert "did not end" in difference.text().splitlines()[0]
