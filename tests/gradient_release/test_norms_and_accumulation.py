"""The norms of the last step, micro-batches, and how many gradients are alive."""

from __future__ import annotations

import pytest
import torch
from loops import INFINITE, assert_same, gpt, loss_of, mlp, square, train
from torch import nn, optim
from torch.nn.utils import clip_grad_norm_

from backsight.gradient_release import AlreadyStepped, GradientGone, NotReleasable, ReleaseWarning, release

BUCKETS = (0, 4096, "64KB", INFINITE)


@pytest.mark.parametrize("bucket", BUCKETS)
@pytest.mark.parametrize("make", [gpt, lambda: mlp(8, 40, 1)], ids=["large", "small"])
def test_the_norm_is_that_of_clip_grad_norm_bit_for_bit_before_and_after_the_step(bucket, make):
    loss = loss_of if make is gpt else square
    expected, model = make(), make()
    plain = optim.AdamW(expected.parameters(), lr=1e-2)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    released = release(optimizer, bucket)
    for step in range(3):
        loss(expected, step).backward()
        norm = clip_grad_norm_(expected.parameters(), INFINITE)
        norms = [each.grad.norm() for each in expected.parameters()]
        loss(model, step).backward()
        assert torch.equal(released.grad_norm(), norm)
        for each in (plain, optimizer):
            each.step()
        assert torch.equal(released.grad_norm(), norm)
        for each in (plain, optimizer):
            each.zero_grad()
        assert torch.equal(released.grad_norm(), norm)
        found = released.grad_norms()
        assert list(found) == [f"model.{name}" for name, _ in model.named_parameters()]
        torch.testing.assert_close(list(found.values()), norms)


def test_there_is_no_norm_before_the_first_step():
    released = release(optim.SGD(mlp(8, 40).parameters(), lr=0.1), 0)
    assert released.grad_norm() == 0
    assert released.grad_norms() == {}


def test_the_norms_of_a_small_model_are_known_although_its_gradients_are_zeroed_in_place():
    model = mlp(8, 40, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.0)
    released = release(optimizer)
    for step in range(3):
        square(model).backward()
        norm = clip_grad_norm_(model.parameters(), INFINITE)
        optimizer.step()
        assert torch.equal(released.grad_norm(), norm)
        optimizer.zero_grad(set_to_none=False)
        if step:
            assert torch.equal(released.grad_norm(), norm)


def test_norms_of_gradients_that_were_overwritten_before_somebody_asked_are_no_wrong_numbers():
    model = mlp(8, 40, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.0)
    released = release(optimizer)
    square(model).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    with pytest.raises(GradientGone, match="overwritten in place before you asked"):
        released.grad_norm()


def test_names_that_the_optimizer_was_given_come_first():
    model = mlp(8, 200)
    released = release(optim.SGD(model.named_parameters(), lr=0.1), 0)
    square(model).backward()
    assert released.stepped == ("0.bias", "0.weight")


def test_a_parameter_that_no_variable_holds_is_named_by_its_place():
    optimizer = optim.SGD([nn.Parameter(torch.ones(50, 50))], lr=0.1)
    released = release(optimizer, 0)
    optimizer.param_groups[0]["params"][0].sum().backward()
    assert len(released.stepped) == 1
    assert "shape (50, 50)" in released.stepped[0] or "optimizer" in released.stepped[0]


@pytest.mark.parametrize(("bucket", "most"), [(0, 40 * 160 * 4), (4096, 40 * 160 * 4 + 4096), (INFINITE, 10**9)])
def test_no_more_gradients_are_alive_than_a_bucket_and_the_largest(bucket, most):
    model = mlp(40, 160, 40, 160, 40)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    released = train(model, optimizer, 2, bucket=bucket)
    whole = sum(each.nbytes for each in model.parameters())
    assert released.peak_gradient_bytes <= most
    assert (released.peak_gradient_bytes == whole) == (bucket == INFINITE)


def micro(bucket, *, into=None, make=optim.AdamW, flagged=True, micro=3, **settings):
    model = mlp(8, 40, 40, 1)
    optimizer = make(model.parameters(), lr=1e-2, **settings)
    released = None if bucket is None else release(optimizer, bucket)
    for step in range(4):
        for part in range(micro):
            loss = square(model, 10 * step + part, scale=1 / micro)
            if released is not None and part < micro - 1 and flagged:
                with released.accumulate(into=into):
                    loss.backward()
            else:
                loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return (model, optimizer), released


@pytest.mark.parametrize("bucket", BUCKETS)
def test_accumulated_micro_batches_give_the_same_bits(bucket):
    (found, released), (expected, _) = micro(bucket), micro(None)
    assert_same(found, expected)
    assert released.peak_gradient_bytes == sum(each.nbytes for each in found[0].parameters())


def test_unflagged_micro_batches_raise():
    with pytest.raises(AlreadyStepped, match=r"within `with release\.accumulate\(\):`"):
        micro(0, flagged=False)


@pytest.mark.parametrize("bucket", [0, 4096, INFINITE])
def test_a_parameter_that_only_earlier_micro_batches_reach_is_stepped(bucket):
    def run(bucket, into=None):
        model = nn.ModuleList([mlp(8, 40, 1), mlp(8, 40, 1, seed=1)])
        optimizer = optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, weight_decay=0.1)
        released = None if bucket is None else release(optimizer, bucket)
        for step in range(4):
            if released is None:
                square(model[0], step).backward()
            else:
                with released.accumulate(into):
                    square(model[0], step).backward()
            square(model[1], step).backward()
            optimizer.step()
            optimizer.zero_grad()
        return model, optimizer

    assert_same(run(bucket), run(None))
    found, expected = run(bucket, "momentum"), run(None)
    torch.testing.assert_close(list(found[0].parameters()), list(expected[0].parameters()))


@pytest.mark.parametrize("settings", [{}, {"dampening": 0.3}, {"maximize": True}, {"weight_decay": 0.1}], ids=str)
@pytest.mark.parametrize("fused", [True, False])
def test_micro_batches_go_into_the_momentum_without_memory(settings, fused):
    settings = {"make": optim.SGD, "momentum": 0.9, "fused": fused, **settings}
    (found, released), (expected, _) = micro(0, into="momentum", **settings), micro(None, **settings)
    for one, other in zip(found[0].parameters(), expected[0].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)
    kept_in_the_first_step = fused or "dampening" in settings
    assert (released.peak_gradient_bytes == 40 * 40 * 4) != kept_in_the_first_step
    with pytest.raises(GradientGone, match="went into the momentum one after another"):
        released.grad_norm()


@pytest.mark.parametrize(
    ("make", "settings", "told"),
    [
        (optim.AdamW, {}, "not for AdamW"),
        (optim.SGD, {}, "not for SGD with momentum=0, nesterov=False"),
        (optim.SGD, {"momentum": 0.9, "nesterov": True}, "not for SGD with momentum=0.9, nesterov=True"),
    ],
)
def test_optimizers_whose_momentum_cannot_take_a_sum_are_refused(make, settings, told):
    with pytest.raises(NotReleasable, match=told):
        micro(0, into="momentum", make=make, **settings)
    with pytest.raises(ValueError, match=r"accumulate\(into='adam'\): it must be 'momentum' or omitted"):
        micro(0, into="adam")


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(mlp(64, 64, 64, seed=number) for number in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def compiled(way):
    torch._dynamo.reset()
    model = Blocks()
    if way == "whole":
        model.compile(backend="aot_eager")
    if way == "blocks":
        for block in model.blocks:
            block.compile(backend="aot_eager")
    return model, optim.AdamW(model.parameters(), lr=1e-2)


def test_a_wholly_compiled_model_is_warned_of_and_exact():
    expected = compiled("whole")
    train(*expected, 3)
    found = compiled("whole")
    with pytest.warns(ReleaseWarning, match=r"^One compiled backward returns 130 KB of gradients at once"):
        train(*found, 3, bucket="40KB")
    assert_same(found, expected)


@pytest.mark.filterwarnings("error::backsight.gradient_release.ReleaseWarning")
def test_a_model_compiled_block_by_block_is_exact_and_releases():
    expected = compiled("blocks")
    train(*expected, 3)
    found = compiled("blocks")
    released = train(*found, 3, bucket="40KB")
    assert_same(found, expected)
    assert released.peak_gradient_bytes < 80 * 1024
