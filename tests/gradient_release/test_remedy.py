"""What came too late is told with the fix that fits, by what is known of how it came to that."""

from __future__ import annotations

import gc

import pytest
import torch
from loops import assert_same, mlp, square
from torch import nn, optim
from torch.nn.functional import softplus
from torch.utils.checkpoint import checkpoint

from backsight.gradient_release import AlreadyStepped, GradientGone, ReleaseWarning, release, remedy


def pair(bucket=0):
    gc.collect()  # no optimizer of another test is alive
    model = mlp(8, 40, 40, 1)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    return model, optimizer, None if bucket is None else release(optimizer, bucket)


def gan(bucket, *, freeze=False, steps=2):
    """Train a generator against a discriminator, as most programs do."""
    generator, discriminator = mlp(8, 40, 8), mlp(8, 40, 1, seed=1)
    trained = [optim.Adam(each.parameters(), lr=1e-2) for each in (generator, discriminator)]
    for optimizer in trained if bucket is not None else ():
        release(optimizer, bucket)
    for step in range(steps):
        torch.manual_seed(step)
        fake = generator(torch.randn(4, 8))
        trained[1].zero_grad()
        (softplus(-discriminator(torch.randn(4, 8))) + softplus(discriminator(fake.detach()))).mean().backward()
        trained[1].step()
        trained[0].zero_grad()
        if freeze:
            discriminator.requires_grad_(False)
        softplus(-discriminator(fake)).mean().backward()
        if freeze:
            discriminator.requires_grad_(True)
        trained[0].step()
    return discriminator, trained[1]


FREEZE = r"freeze this one meanwhile: model\.requires_grad_\(False\)"


def test_a_generator_that_goes_through_a_released_discriminator_is_told_to_freeze_it():
    with pytest.raises(
        AlreadyStepped, match=rf"^\S+ received a second gradient [^.]*\. If this is the loss .*{FREEZE}"
    ):
        gan(0)


def test_and_so_is_one_whose_discriminator_is_zeroed_before_its_own_next_backward():
    with (
        pytest.warns(ReleaseWarning, match=r"^zero_grad\(\) came before optimizer\.step\(\)"),
        pytest.raises(
            AlreadyStepped, match=rf"not meant to train it\. If this is the loss of another model .*{FREEZE}"
        ),
    ):
        gan_zeroed_late()


def gan_zeroed_late():
    """The discriminator is zeroed after its step, steps for the generator's loss, and is zeroed again."""
    discriminator, optimizer, _ = pair()
    generator = mlp(8, 8, seed=1)
    other = optim.Adam(generator.parameters(), lr=1e-2)
    for _ in range(2):
        optimizer.zero_grad()
        softplus(discriminator(torch.ones(4, 8))).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        softplus(-discriminator(generator(torch.ones(4, 8)))).mean().backward()
        other.step()


def test_a_frozen_discriminator_is_exact():
    assert_same(gan(0, freeze=True), gan(None))


def test_a_loop_that_forgets_zero_grad_is_told_of_that_first(monkeypatch):
    monkeypatch.setattr(remedy, "alive", lambda kind: [])  # other tests of this process may have left optimizers behind
    model, optimizer, _ = pair()
    square(model).backward()
    optimizer.step()
    with pytest.raises(AlreadyStepped, match=r"Its optimizer\.step\(\) is done: call zero_grad\(\) after each"):
        square(model, 1).backward()


def test_several_losses_are_to_be_summed_or_accumulated():
    model, _, _ = pair()
    one, other = square(model), square(model, 1)
    one.backward()
    batches = r"If you accumulate gradients over several batches, run all but the last within `with release"
    with pytest.raises(AlreadyStepped, match=rf"received a second gradient after [a-z ]+\. {batches}"):
        other.backward()
    with pytest.raises(
        AlreadyStepped, match=rf" took it already\. {batches}.* For several losses, call backward\(\) once"
    ):
        square(model, 2)


def test_a_layer_under_two_reentrant_checkpoints_is_told_of_those_that_are_not():
    layer, last = nn.Linear(8, 8), nn.Linear(8, 1)
    optimizer = optim.SGD([*layer.parameters(), *last.parameters()], lr=0.1)
    release(optimizer, 0)
    x = torch.ones(2, 8, requires_grad=True)
    for _ in range(2):
        x = checkpoint(lambda y: torch.tanh(layer(y)), x, use_reentrant=True)
    with pytest.raises(AlreadyStepped, match=r"^layer\.\S+ is read .*: a reentrant checkpoint .*use_reentrant=False"):
        last(x).sum().backward()


def test_a_bias_inside_and_outside_of_a_reentrant_checkpoint_as_well():
    shift, optimizer = nn.Parameter(torch.zeros(8)), None
    optimizer = optim.SGD([shift], lr=0.1)
    release(optimizer, 0)
    x = checkpoint(lambda y: (y + shift).sin(), torch.ones(2, 8, requires_grad=True), use_reentrant=True)
    with pytest.raises(AlreadyStepped, match=r"^shift received a second gradient .*use_reentrant=False|^shift is read"):
        (x + shift).sum().backward()


def test_after_an_interrupted_backward_the_way_out_is_told():
    model, _, _ = pair()

    def fail(_):
        raise ArithmeticError

    handle = model[0].bias.register_hook(fail)
    with pytest.raises(ArithmeticError):
        square(model).backward()
    handle.remove()
    with pytest.raises(AlreadyStepped, match=r"An earlier backward was interrupted: optimizer\.step\(\) ends its step"):
        square(model).backward()


@pytest.mark.parametrize(
    "unscale",
    [
        lambda grad: grad.div_(128),
        lambda grad: grad.mul_(1 / 128),
        lambda grad: torch._foreach_mul_([grad], 1 / 128),
    ],
)
def test_a_static_loss_scale_is_told_how_to_be_undone(unscale):
    model, _, _ = pair()
    (square(model) * 128).backward()
    with pytest.raises(
        GradientGone, match=r"It is too late to .* by .*register_hook\(lambda gradient: gradient"
    ) as told:
        unscale(model[0].weight.grad)
    assert "clip" not in str(told.value)


def test_a_static_loss_scale_undone_by_hooks_is_that_of_the_ordinary_loop():
    def run(bucket):
        model, optimizer, _ = pair(bucket)
        if bucket is not None:
            for each in model.parameters():
                each.register_hook(lambda gradient: gradient / 128)
        for step in range(3):
            (square(model, step) * 128).backward()
            for each in model.parameters() if bucket is None else ():
                each.grad.div_(128)
            optimizer.step()
            optimizer.zero_grad()
        return model, optimizer

    assert_same(run(0), run(None))
