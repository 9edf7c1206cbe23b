"""What clipping holds and tells, beside whom it works, how it ends, and what it refuses."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch
from gradient_release.clipped import (
    MAKERS,
    Convolutions,
    Transformer,
    assert_equal_bits,
    both,
    images,
    ordinary,
    words,
)
from torch import nn

import backsight
import backsight.gradient_release as gradient_release
from backsight.gradient_release import AlreadyStepped, GradientGone, NotReleasable, ReleaseError
from backsight.gradient_release.clipping.gradient import FactoredGradient

pytestmark = pytest.mark.usefixtures("seeded")


def test_factors_take_less_memory_than_gradients_and_the_release_tells_how_much():
    model = Transformer()
    _, (twin, *_), release = both(model, MAKERS["momentum"], words(2), 0.5, "factored")
    whole = sum(p.nbytes for p in twin.parameters())
    assert release.peak_gradient_bytes < whole / 2
    text = str(release.clipping)
    assert text.startswith(
        "Clipping to norm 0.5 (order 2), factored: 6 of 15 gradients are kept as factors; the last step"
    )
    assert "9 vectors" in text


def test_the_report_says_why_a_gradient_is_dense():
    model = Convolutions().eval()
    _, _, release = both(model, MAKERS["momentum"], images(1), 0.5, "factored")
    lines = str(release.clipping).splitlines()
    assert lines[1].startswith("dense") and lines[1].endswith("Conv2d is not supported")
    assert lines[3].startswith("factored") and "4 tokens: 13.5 KB for 200 KB" in lines[3]


def test_the_report_before_the_first_step_says_that_nothing_is_known():
    model = nn.Sequential(nn.EmbeddingBag(500, 64), nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    release = gradient_release.release(optimizer)
    release.clip(1.0)
    assert str(release.clipping) == "Clipping to norm 1 (order 2), auto: what is kept as factors is " + (
        "not known before the first step"
    )
    model(torch.zeros(2, 4, dtype=torch.long)).sum().backward()
    optimizer.step()
    assert "EmbeddingBag is not supported" in str(release.clipping)


def test_factored_gradients_are_made_one_at_a_time_and_freed():
    layers = nn.Sequential(*[nn.Linear(64, 64, bias=False) for _ in range(6)])
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    release = gradient_release.release(optimizer, bucket=0)
    release.clip(1.0, method="factored")
    made, most = [], []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if type(out) is torch.Tensor and out.shape == (64, 64):
                made.append(weakref.ref(out))
                most.append(sum(each() is not None for each in made))
            return out

    layers(torch.ones(1, 64)).sum().backward()
    with Watch():
        optimizer.step()
    assert len(made) >= 6 and max(most) <= 2


def test_a_gradient_that_somebody_else_wants_to_see_arrive_is_an_ordinary_one(small):
    layer, optimizer, release = small
    release.clip(0.1, method="factored")
    seen = []
    layer.weight.register_post_accumulate_grad_hook(lambda p: seen.append((type(p.grad), float(p.grad.mean()))))
    for _ in range(2):
        layer(torch.ones(1, 30)).sum().backward()
    optimizer.step()
    assert seen == [(torch.Tensor, 1.0), (torch.Tensor, 2.0)]
    assert "a hook wants to see its gradient" in str(release.clipping)


@pytest.mark.parametrize("recorder_first", [True, False])
def test_a_recorder_sees_the_gradients_of_the_ordinary_loop(tmp_path, recorder_first):
    def train(name, clip):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 64))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        recorder = backsight.record(model, optimizer, run=tmp_path / name) if recorder_first else None
        if clip:
            gradient_release.release(optimizer, bucket=0).clip(0.1, method="factored")
        recorder = recorder or backsight.record(model, optimizer, run=tmp_path / name)
        for step in range(3):
            model(torch.full((1, 64), 1.0 + step)).square().sum().backward()
            if not clip:
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
            optimizer.zero_grad()
        recorder.close()
        return backsight.open_run(tmp_path / name).frame(kind="grad").select_dtypes("float").to_numpy()

    expected, found = train("ordinary", clip=False), train("clipped", clip=True)
    assert len(expected) == 12
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-5, atol=1e-7, equal_nan=True)


def test_clip_none_ends_clipping_and_leaves_plain_gradients(small):
    layer, optimizer, release = small
    release.clip(0.1, method="factored")
    layer(torch.ones(1, 30)).sum().backward()
    assert type(layer.weight.grad) is FactoredGradient
    release.clip(None)
    assert type(layer.weight.grad) is torch.Tensor and release.clipping is None
    before = layer.weight.detach().clone()
    optimizer.step()
    torch.testing.assert_close(before - layer.weight, torch.full((30, 30), 0.1))


def test_remove_leaves_nothing_behind(small):
    layer, optimizer, release = small
    tables = nn.modules.module
    before = dict(tables._global_forward_hooks), dict(tables._global_forward_hooks_with_kwargs)
    release.clip(0.1)
    release.remove()
    assert (tables._global_forward_hooks, tables._global_forward_hooks_with_kwargs) == before
    layer(torch.ones(1, 30)).sum().backward()
    assert type(layer.weight.grad) is torch.Tensor
    optimizer.step()


def test_a_release_that_is_dropped_with_its_model_is_freed():
    layer = nn.Linear(30, 30)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    gradient_release.release(optimizer).clip(1.0)
    layer(torch.ones(1, 30)).sum().backward()
    optimizer.step()
    held = weakref.ref(layer.weight)
    hooks = len(nn.modules.module._global_forward_hooks)
    del layer, optimizer
    gc.collect()
    assert held() is None
    nn.Linear(2, 2)(torch.ones(1, 2))
    assert len(nn.modules.module._global_forward_hooks) < hooks


def test_a_checkpoint_moves_between_a_clipped_and_an_ordinary_run():
    batches = words(8)
    model = Transformer()
    whole = copy.deepcopy(model)
    ordinary(whole, MAKERS["AdamW"](whole.parameters()), batches[:4], 0.5)
    (one, optimizer, *_), (two, other, *_), _ = both(model, MAKERS["AdamW"], batches[:4], 0.5, "two-pass")
    assert_equal_bits((one, optimizer), (two, other))
    resumed = MAKERS["AdamW"](one.parameters())
    resumed.load_state_dict(copy.deepcopy(other.state_dict()))
    assert resumed.state_dict()["state"].keys() == optimizer.state_dict()["state"].keys()


@pytest.mark.parametrize("arguments, message", [((1.0, 2.0, "exact"), "method='exact'"), ((-1.0,), "max_norm=-1.0")])
def test_arguments_that_make_no_sense_are_refused(small, arguments, message):
    with pytest.raises(ValueError, match=message):
        small[2].clip(*arguments)


def test_clipping_cannot_begin_in_the_middle_of_a_step():
    layers = nn.Sequential(nn.Linear(30, 30), nn.Linear(30, 30))
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    release = gradient_release.release(optimizer, bucket=0)
    layers(torch.ones(1, 30)).sum().backward()
    with pytest.raises(ReleaseError, match="in the middle of a step"):
        release.clip(1.0)


def test_what_clipping_has_no_part_in_is_refused(small):
    _, _, release = small
    release.clip(1.0)
    with pytest.raises(NotReleasable, match="momentum"), release.accumulate(into="momentum"):
        pass


class Own(torch.optim.SGD):
    """An optimizer that is not PyTorch's own, and may call its closure several times."""


def test_clipping_has_no_part_in_the_closure_of_an_optimizer_that_may_call_it_twice():
    layer = nn.Linear(30, 30)
    optimizer = Own(layer.parameters(), lr=0.1)
    gradient_release.release(optimizer, bucket=0).clip(1.0)
    with pytest.raises(ReleaseError, match=r"does not work with Own\.step\(closure\).*: clip inside the closure"):
        optimizer.step(lambda: layer(torch.ones(1, 30)).sum())


def test_gradients_of_a_closure_are_clipped_after_it():
    def run(release):
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(30, 30), nn.Tanh(), nn.Linear(30, 30))
        optimizer = torch.optim.SGD(layers.parameters(), lr=0.5, momentum=0.9)
        released = gradient_release.release(optimizer, bucket=0) if release else None
        if released is not None:
            released.clip(0.1)

        def closure():
            optimizer.zero_grad()
            loss = layers(torch.ones(2, 30)).square().sum()
            loss.backward()
            if released is None:
                nn.utils.clip_grad_norm_(layers.parameters(), 0.1)
            return loss

        losses = [float(optimizer.step(closure)) for _ in range(4)]
        return losses, torch.cat([each.detach().flatten() for each in layers.parameters()])

    (losses, weights), (plain_losses, plain) = run(release=True), run(release=False)
    assert losses == pytest.approx(plain_losses, rel=1e-5)
    assert losses[-1] < losses[0]
    assert torch.allclose(weights, plain, atol=1e-6)


def test_a_gradient_that_was_stepped_is_gone_and_a_second_one_raises(small):
    layer, optimizer, release = small
    release.clip(1.0, method="factored")
    layer(torch.ones(1, 30)).sum().backward()
    optimizer.step()
    with pytest.raises(GradientGone):
        layer.weight.grad.abs()
    with pytest.raises(AlreadyStepped):
        layer(torch.ones(1, 30)).sum().backward()
