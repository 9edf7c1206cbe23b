"""Clipping to a global norm with released gradients gives the weights of the ordinary loop with clip_grad_norm_."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from gradient_release.clipped import (
    MAKERS,
    Convolutions,
    Transformer,
    assert_close,
    assert_equal_bits,
    both,
    images,
    loss_of,
    words,
)
from torch import nn
from torch.utils.checkpoint import checkpoint

import backsight.gradient_release as gradient_release
from backsight.gradient_release import AlreadyStepped, ReleaseError

pytestmark = pytest.mark.usefixtures("seeded")


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("micro", [1, 3])
@pytest.mark.parametrize("model, batches", [(Transformer, words), (Convolutions, images)])
def test_two_passes_have_the_bits_of_the_ordinary_loop(make, micro, model, batches):
    expected, found, _ = both(model().eval(), make, batches(20), 0.5, "two-pass", micro=micro)
    assert_equal_bits(expected, found)
    assert torch.equal(torch.stack(expected[2]), torch.stack(found[2]))


@pytest.mark.parametrize("micro", [1, 3])
@pytest.mark.parametrize("model, batches", [(Transformer, words), (Convolutions, images)])
@pytest.mark.parametrize("method", ["factored", "auto"])
def test_factored_gradients_give_the_same_weights_up_to_rounding(model, batches, micro, method):
    expected, found, release = both(model().eval(), MAKERS["momentum"], batches(20), 0.5, method, micro=micro)
    assert_close(expected, found, 2e-6)
    torch.testing.assert_close(torch.stack(found[2]), torch.stack(expected[2]), rtol=2e-6, atol=0)
    assert "factored" in str(release.clipping)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_factored_gradients_give_the_same_weights_with_adamw_in_double_precision(make):
    """In single precision Adam makes whole steps of gradients that are nothing but rounding (a key's bias has none)."""
    batches = words(20)
    expected, found, _ = both(Transformer().double(), make, batches, 0.5, "factored")
    assert_close(expected, found, 1e-8)


def test_gradients_of_the_first_step_are_equal_to_five_in_ten_million():
    model, batch = Transformer(), words(1)[0]
    twin = copy.deepcopy(model)
    loss_of(twin, batch).backward()
    total = nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    release = gradient_release.release(optimizer, bucket=0)
    release.clip(0.5, method="factored")
    loss_of(model, batch).backward()
    raw = {name: p.grad.clone() for name, p in model.named_parameters()}
    optimizer.step()
    assert abs(float(release.grad_norm() / total) - 1) < 5e-7
    coefficient = 0.5 / (total + 1e-6)
    for name, parameter in twin.named_parameters():
        clipped = raw[name] * coefficient
        assert float((clipped - parameter.grad).norm() / parameter.grad.norm()) < 5e-7


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("method", ["two-pass", "factored"])
def test_norms_of_other_orders(norm_type, method):
    expected, found, _ = both(Transformer(), MAKERS["momentum"], words(3), 0.3, method, norm_type=norm_type)
    torch.testing.assert_close(torch.stack(found[2]), torch.stack(expected[2]), rtol=2e-6, atol=0)
    assert_close(expected, found, 2e-6)


@pytest.mark.parametrize("method", ["two-pass", "factored"])
@pytest.mark.parametrize("max_norm", [math.inf, 1e9])
def test_a_bound_that_is_not_reached_changes_nothing(method, max_norm):
    expected, found, _ = both(Convolutions().eval(), MAKERS["AdamW"], images(3), max_norm, method)
    assert_close(expected, found, 1e-6)


def test_norms_by_name_are_those_before_clipping_and_known_before_the_step(small):
    layer, optimizer, release = small
    release.clip(0.1, method="factored")
    layer(torch.ones(1, 30)).sum().backward()
    early = release.grad_norms(), release.grad_norm()
    optimizer.step()
    optimizer.zero_grad()
    assert [float(norm) for norm in release.grad_norms().values()] == pytest.approx([30.0, math.sqrt(30)])
    assert {name: float(norm) for name, norm in release.grad_norms().items()} == pytest.approx(
        {name: float(norm) for name, norm in early[0].items()}
    )
    assert float(early[1]) == pytest.approx(float(release.grad_norm())) == pytest.approx(math.sqrt(930))


@pytest.mark.parametrize("method", ["two-pass", "factored"])
def test_a_norm_that_is_not_finite_raises_before_any_weight_moves_if_asked_to(small, method):
    layer, optimizer, release = small
    release.clip(1.0, method=method, error_if_nonfinite=True)
    before = copy.deepcopy(layer.state_dict())
    with pytest.raises(RuntimeError, match=r"norm of order 2\.0 for gradients is non-finite"):
        release.backward(layer(torch.full((1, 30), math.inf)).sum())
        optimizer.step()
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())
    assert release.stepped == ()


@pytest.mark.parametrize("value", [math.inf, math.nan])
@pytest.mark.parametrize("method", ["two-pass", "factored"])
def test_a_norm_that_is_not_finite_spoils_the_weights_as_clip_grad_norm_does(method, value):
    batches = images(2)
    batches[1][0, 0, 0, 0] = value
    expected, found, _ = both(Convolutions().eval(), MAKERS["momentum"], batches, 0.5, method)
    for one, other in zip(expected[0].parameters(), found[0].parameters(), strict=True):
        assert torch.equal(one.isnan(), other.isnan())
    assert expected[2][1].isnan() == found[2][1].isnan()


def test_loss_backward_is_refused_with_two_passes(small):
    layer, _, release = small
    release.clip(1.0, method="two-pass")
    before = copy.deepcopy(layer.state_dict())
    with pytest.raises(ReleaseError, match=r"write release\.backward\(loss\) instead of loss\.backward\(\)"):
        layer(torch.ones(1, 30)).sum().backward()
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())


def test_hooks_of_the_user_fire_in_both_passes(small):
    layer, optimizer, release = small
    release.clip(1.0, method="two-pass")
    seen = []
    layer.weight.register_hook(lambda gradient: seen.append(1) and None)
    release.backward(layer(torch.ones(1, 30)).sum())
    optimizer.step()
    assert len(seen) == 2


def test_auto_passes_twice_where_most_gradients_would_stay_dense(small):
    layer, optimizer, release = small
    release.clip(1.0)
    passes = []
    layer.bias.register_hook(lambda gradient: passes.append(1) and None)
    for tokens, expected in ((1, 1), (500, 2)):
        passes.clear()
        release.backward(layer(torch.ones(tokens, 30)).sum())
        optimizer.step()
        optimizer.zero_grad()
        assert len(passes) == expected


@pytest.mark.parametrize(("norms", "expected"), [(0, 1), (1, 2)])
def test_auto_counts_what_the_factors_themselves_take(norms, expected):
    model, passes = nn.Sequential(nn.Linear(30, 30), *[nn.LayerNorm(30)] * norms), []
    model[0].bias.register_hook(lambda gradient: passes.append(1) and None)
    release = gradient_release.release(torch.optim.SGD(model.parameters(), lr=0.1), bucket=0)
    release.clip(1.0)
    release.backward(model(torch.randn(7, 30)).sum())  # factors of nearly half of the weight's gradient
    assert len(passes) == expected


def test_two_reentrant_checkpoints_of_one_layer_are_refused_by_two_passes_and_exact_with_factors():
    def run(layer, backward):
        given = torch.ones(1, 30, requires_grad=True)
        hidden = checkpoint(layer, given, use_reentrant=True)
        backward(checkpoint(layer, hidden, use_reentrant=True).sin().sum())

    layer = nn.Linear(30, 30)
    twin = copy.deepcopy(layer)
    optimizer, plain = torch.optim.SGD(layer.parameters(), lr=0.1), torch.optim.SGD(twin.parameters(), lr=0.1)
    release = gradient_release.release(optimizer, bucket=0)
    release.clip(0.5, method="two-pass")
    with pytest.raises(AlreadyStepped, match="in two parts within one backward pass"):
        run(layer, release.backward)
    assert torch.equal(layer.weight, twin.weight)
    optimizer.zero_grad()
    release.clip(0.5, method="factored")
    run(layer, torch.Tensor.backward)
    optimizer.step()
    run(twin, torch.Tensor.backward)
    nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
    plain.step()
    torch.testing.assert_close(layer.weight, twin.weight)


@pytest.mark.parametrize("method", ["two-pass", "factored"])
def test_checkpointed_blocks(method):
    class Checkpointed(Transformer):
        def forward(self, index):
            x = self.words(index) + self.places(torch.arange(index.shape[1]))
            for _ in range(2):
                x = checkpoint(self.block, x, use_reentrant=False)
            return self.head(self.norm(x))

    expected, found, _ = both(Checkpointed(), MAKERS["momentum"], words(4), 0.5, method)
    assert_equal_bits(expected, found) if method == "two-pass" else assert_close(expected, found, 1e-6)


@pytest.mark.parametrize("method", ["two-pass", "factored"])
def test_under_bfloat16_autocast_weights_and_norms_have_equal_bits(method):
    class Cast(Convolutions):
        def forward(self, given):
            with torch.autocast("cpu", torch.bfloat16):
                return super().forward(given).float()

    expected, found, _ = both(Cast().eval(), MAKERS["AdamW"], images(4), 0.5, method)
    assert_equal_bits(expected, found)
    assert torch.equal(torch.stack(expected[2]), torch.stack(found[2]))


def test_frozen_weights_and_parameters_without_a_gradient_are_left_alone():
    model = Transformer()
    model.block.up.weight.requires_grad_(False)
    model.unused = nn.Linear(50, 50)
    expected, found, _ = both(model, MAKERS["AdamW"], words(3), 0.5, "two-pass")
    assert_equal_bits(expected, found)


def test_the_second_model_of_a_gan_keeps_its_gradients_apart():
    """What the generator's loss leaves in the critic's gradients is dropped by zero_grad, factors too."""

    def train(models, clip):
        generator, critic = models
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in models]
        releases = [gradient_release.release(o, bucket=0) for o in optimizers] if clip else []
        for release in releases:
            release.clip(0.1, method="factored")
        for noise in torch.linspace(-1, 1, 6 * 20).view(6, 1, 20):
            for mine, loss in ((1, critic(generator(noise).detach()).sum()), (0, -critic(generator(noise)).sum())):
                if mine == 0:
                    loss = -critic(generator(noise)).sum()
                for optimizer in optimizers:
                    optimizer.zero_grad()
                loss.backward()
                if not clip:
                    nn.utils.clip_grad_norm_(models[mine].parameters(), 0.1)
                optimizers[mine].step()
        for release in releases:
            release.clip(None)

    models = [nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 20)) for _ in range(2)]
    twins = copy.deepcopy(models)
    train(models, clip=False)
    train(twins, clip=True)
    for model, twin in zip(models, twins, strict=True):
        for one, other in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(one, other)
