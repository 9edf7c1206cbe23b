"""Gradient release on a device: the bits of the ordinary loop, and less memory at the peak."""

from __future__ import annotations

import math

import pytest
import torch
from at_hand import DEVICE, REHEARSAL, Waits, finished
from torch import nn

import backsight as bs

pytestmark = pytest.mark.device("gradient release on CUDA")

HOW = {
    "AdamW, fused": (torch.optim.AdamW, {"fused": True}),
    "AdamW, foreach": (torch.optim.AdamW, {"foreach": True}),
    "AdamW, loop": (torch.optim.AdamW, {"foreach": False}),
    "SGD with momentum, fused": (torch.optim.SGD, {"momentum": 0.9, "fused": True}),
}


def layers(count=12, width=256):
    torch.manual_seed(0)
    stack = [layer for _ in range(count) for layer in (nn.Linear(width, width), nn.Tanh())]
    return nn.Sequential(*stack).to(DEVICE)


def trained(make, options, bucket, *, steps=4, clip=False, scaled=False):
    model = layers()
    optimizer = make(model.parameters(), lr=1e-3, **options)
    release = None if bucket is None else bs.release(optimizer, bucket=bucket)
    if scaled and release is not None:
        release.clip(math.inf)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0**10, enabled=scaled)
    norms = []
    for number in range(steps):
        torch.manual_seed(number)
        loss = model(torch.randn(32, 256, device=DEVICE)).square().mean()
        scaler.scale(loss).backward()
        if clip:
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    if release is not None:
        release.remove()
    state = [value for entries in optimizer.state.values() for value in entries.values() if torch.is_tensor(value)]
    return [each.detach().cpu() for each in (*model.parameters(), *state, *norms)]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("bucket", ["auto", 0, "1MB"])
def test_the_bits_are_those_of_the_ordinary_loop(how, bucket):
    make, options = HOW[how]
    expected, found = trained(make, options, None), trained(make, options, bucket)
    assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))


@pytest.mark.parametrize("how", ["AdamW, fused", "AdamW, foreach"])
def test_clipping_sees_the_norm(how):
    make, options = HOW[how]
    expected, found = (trained(make, options, bucket, clip=True) for bucket in (None, "1MB"))
    for one, other in zip(expected[-4:], found[-4:], strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


def test_a_gradient_scaler_steps_the_same():
    make, options = HOW["AdamW, fused"]
    expected, found = (trained(make, options, bucket, scaled=True) for bucket in (None, "1MB"))
    assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))


def test_the_peak_of_a_step_is_lower_by_the_gradients(told):
    def peak(bucket):
        model = layers(100, 512)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        x = torch.randn(8, 512, device=DEVICE)
        release = None if bucket is None else bs.release(optimizer, bucket=bucket)

        def step():
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        step()
        if REHEARSAL:
            with bs.measure_memory() as measured:
                step()
            found = measured.peak - measured.start
        else:
            finished()
            start = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            step()
            finished()
            found = torch.cuda.max_memory_allocated() - start
        if release is not None:
            release.remove()
        return found, sum(each.nbytes for each in model.parameters())

    (ordinary, gradients), (released, _) = peak(None), peak("4MB")
    told(f"{ordinary / 2**20:.1f} MiB above the start of a step, released {released / 2**20:.1f} MiB")
    assert released < ordinary - 0.8 * gradients + 8 * 2**20


def test_a_released_step_waits_no_more_than_the_ordinary_one(told):
    def waits_of(bucket):
        model = layers()
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        release = None if bucket is None else bs.release(optimizer, bucket=bucket)
        x = torch.randn(8, 256, device=DEVICE)

        def step():
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        step()
        step()
        with Waits() as waits:
            step()
        if release is not None:
            release.remove()
        return waits.told

    ordinary, released = waits_of(None), waits_of("1MB")
    told(f"{len(released)} waits, ordinary {len(ordinary)}")
    assert len(released) <= len(ordinary), released
