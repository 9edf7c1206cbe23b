"""GradScaler with gradient release: the weights of the ordinary loop, overflows included, or a refusal."""

from __future__ import annotations

import copy
import gc
import math

import pytest
import torch
from gradient_release.clipped import Convolutions, Transformer, assert_close, assert_equal_bits, both, images, words
from torch import nn

import backsight.gradient_release as gradient_release
from backsight.gradient_release import ReleaseError

MAKERS = {
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    "AdamW fused": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, fused=True),
}


def overflowing():
    """A scaler so large that the first steps of a `Transformer` overflow, and some later ones."""
    return torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=3)


@pytest.fixture(autouse=True)
def seed():
    gc.collect()  # scalers of other tests
    torch.manual_seed(0)


@pytest.fixture
def scaled():
    """A released layer, its optimizer, and a scaler that has scaled its loss."""
    layer = nn.Linear(30, 30)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    return layer, optimizer, gradient_release.release(optimizer, bucket=0), torch.amp.GradScaler("cpu")


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("micro", [1, 3])
@pytest.mark.parametrize("model, batches", [(Transformer, words), (Convolutions, images)])
def test_two_passes_have_the_bits_of_the_ordinary_loop_overflows_included(make, micro, model, batches):
    expected, found, _ = both(model().eval(), make, batches(12), 0.5, "two-pass", scaler=overflowing, micro=micro)
    assert_equal_bits(expected, found)
    assert expected[3].state_dict() == found[3].state_dict()
    overflows = sum(not norm.isfinite() for norm in expected[2])
    assert overflows < 12 and (overflows or model is Convolutions)  # whose gradients are small


@pytest.mark.parametrize("micro", [1, 3])
def test_factored_gradients_overflow_where_ordinary_ones_do(micro):
    model, batches = Transformer(), words(12)
    expected, found, _ = both(model, MAKERS["momentum"], batches, 0.5, "factored", scaler=overflowing, micro=micro)
    assert expected[3].state_dict() == found[3].state_dict()
    assert 0 < sum(not norm.isfinite() for norm in expected[2]) < 12
    assert_close(expected, found, 2e-6)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("unscale", [True, False])
def test_the_loop_may_call_unscale_or_leave_it_to_the_scaler(scaled, fused, unscale):
    layer = nn.Linear(30, 30)
    twin = copy.deepcopy(layer)
    optimizer, plain = (torch.optim.AdamW(m.parameters(), lr=0.1, fused=fused) for m in (layer, twin))
    gradient_release.release(optimizer, bucket=0).clip(0.1)
    for module, each in ((layer, optimizer), (twin, plain)):
        scaler = torch.amp.GradScaler("cpu")
        scaler.scale(module(torch.ones(1, 30)).square().sum()).backward()
        if each is plain or unscale:
            scaler.unscale_(each)
        if each is plain:
            nn.utils.clip_grad_norm_(module.parameters(), 0.1)
        scaler.step(each)
        scaler.update()
    torch.testing.assert_close(layer.weight, twin.weight, rtol=1e-5, atol=1e-6)


def test_without_clipping_a_scaler_is_refused_before_any_weight_moves(scaled):
    layer, _, _, scaler = scaled
    before = copy.deepcopy(layer.state_dict())
    with pytest.raises(ReleaseError, match=r"release\.clip\(math\.inf\) to clip nothing"):
        scaler.scale(layer(torch.ones(1, 30)).sum()).backward()
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())


def test_the_fix_that_the_refusal_names_is_exact(scaled):
    layer, optimizer, release, scaler = scaled
    before = layer.weight.detach().clone()
    release.clip(math.inf)
    scaler.scale(layer(torch.ones(1, 30)).sum()).backward()
    scaler.step(optimizer)
    assert torch.equal(layer.weight, before - 0.1)


def test_a_scaler_that_is_not_enabled_or_not_used_is_no_matter(scaled):
    layer, optimizer, release, _ = scaled
    disabled = torch.amp.GradScaler("cpu", enabled=False)
    disabled.scale(layer(torch.ones(1, 30)).sum()).backward()
    disabled.step(optimizer)
    optimizer.zero_grad()
    release.clip(1.0, method="two-pass")
    release.backward(disabled.scale(layer(torch.ones(1, 30)).sum()), scaler=disabled)
    disabled.step(optimizer)
    assert release.grad_norm() > 0


def test_two_passes_refuse_a_loss_that_was_scaled_by_a_scaler_they_do_not_know(scaled):
    layer, _, release, scaler = scaled
    release.clip(1.0, method="two-pass")
    before = copy.deepcopy(layer.state_dict())
    loss = scaler.scale(layer(torch.ones(1, 30)).sum())
    for each in (loss, loss / 2):
        with pytest.raises(ReleaseError, match=r"release\.backward\(scaler\.scale\(loss\), scaler=scaler\)"):
            release.backward(each)
    assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())
    release.backward(layer(torch.ones(1, 30)).sum())  # another training's scaler is no matter


def test_two_passes_with_a_scaler_need_a_loss_that_it_scaled(scaled):
    layer, _, release, scaler = scaled
    release.clip(1.0, method="two-pass")
    before = layer.weight.detach().clone()
    with pytest.raises((AssertionError, RuntimeError)):
        release.backward(layer(torch.ones(1, 30)).sum(), scaler=scaler)
    assert torch.equal(layer.weight, before)


def test_backward_with_a_scaler_and_without_clipping_is_refused(scaled):
    layer, _, release, scaler = scaled
    with pytest.raises(ReleaseError, match="is for clipping"):
        release.backward(scaler.scale(layer(torch.ones(1, 30)).sum()), scaler=scaler)
