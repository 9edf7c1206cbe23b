"""What `accelerator.prepare` returns can be recorded, audited and released like what was given to it."""

from __future__ import annotations

import pytest
import torch
from left_over import hooks
from torch import nn
from torch.nn.functional import mse_loss

import backsight as bs

accelerate = pytest.importorskip("accelerate", reason="ACCELERATE IS NOT TESTED: pip install accelerate")
from accelerate.state import AcceleratorState, GradientState  # noqa: E402  # after what it needs was looked for


def prepared(**options):
    AcceleratorState._reset_state(reset_partial_state=True)  # which all accelerators of a process share
    GradientState._reset_state()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    accelerator = accelerate.Accelerator(cpu=True, **options)
    model, optimizer = accelerator.prepare(model, optimizer)
    assert type(optimizer).__name__ == "AcceleratedOptimizer"
    return accelerator, model, optimizer


def batches(count):
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(16, 8, generator=generator) for _ in range(count)]
    return [(each, each.sum(1, keepdim=True).sin()) for each in inputs]


def train(accelerator, model, optimizer, count=6):
    for x, y in batches(count):
        with accelerator.accumulate(model):
            accelerator.backward(mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
    return torch.cat([each.detach().flatten() for each in model.parameters()])


@pytest.fixture(scope="module")
def plain():
    return train(*prepared())


def test_a_recording_of_prepared_objects_has_every_step_and_their_optimizer_s_state(plain, tmp_path):
    accelerator, model, optimizer = prepared()
    with bs.record(model, optimizer, run=tmp_path / "run"):
        weights = train(accelerator, model, optimizer)
    assert torch.equal(weights, plain)
    assert hooks(model, optimizer.optimizer) == []
    run = bs.open_run(tmp_path / "run")
    assert run.steps.tolist() == list(range(6))
    assert {"input", "output", "weight", "grad", "state"} == {each.kind for each in run.tensors}


@pytest.mark.parametrize("given", ["wrapped", "inside"])
def test_a_released_optimizer_is_the_one_inside_and_weights_are_bit_identical(plain, given):
    accelerator, model, optimizer = prepared()
    release = bs.release(optimizer if given == "wrapped" else optimizer.optimizer, bucket=0)
    assert release.optimizer is optimizer.optimizer
    assert torch.equal(train(accelerator, model, optimizer), plain)
    assert release.peak_gradient_bytes < sum(each.nbytes for each in model.parameters())
    release.remove()
    assert hooks(model, optimizer.optimizer) == []


def test_clipping_belongs_to_release(plain):
    accelerator, model, optimizer = prepared()
    ordinary = []
    for x, y in batches(6):
        accelerator.backward(mse_loss(model(x), y))
        ordinary.append(accelerator.clip_grad_norm_(model.parameters(), 0.05))
        optimizer.step()
        optimizer.zero_grad()
    clipped = [each.detach().clone() for each in model.parameters()]
    accelerator, model, optimizer = prepared()
    release = bs.release(optimizer, bucket=0)
    release.clip(0.05)
    norms = []
    for x, y in batches(6):
        accelerator.backward(mse_loss(model(x), y))
        optimizer.step()
        norms.append(release.grad_norm())
        optimizer.zero_grad()
    release.remove()
    assert hooks(model, optimizer.optimizer) == []
    assert torch.allclose(torch.stack(norms), torch.stack(ordinary), rtol=1e-4)
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(model.parameters(), clipped, strict=True))


def test_accumulation_is_refused_by_name_unless_release_is_told_of_it():
    accelerator, model, optimizer = prepared(gradient_accumulation_steps=2)
    expected = train(accelerator, model, optimizer)
    accelerator, model, optimizer = prepared(gradient_accumulation_steps=2)
    bs.release(optimizer, bucket=0)
    with pytest.raises(
        bs.AlreadyStepped, match=r"is used in another forward before .*within `with release.accumulate\(\):`"
    ):
        train(accelerator, model, optimizer)
    accelerator, model, optimizer = prepared(gradient_accumulation_steps=2)
    release = bs.release(optimizer, bucket=0)
    for number, (x, y) in enumerate(batches(6)):
        with accelerator.accumulate(model):
            if number % 2 == 0:
                with release.accumulate():
                    accelerator.backward(mse_loss(model(x), y))
            else:
                accelerator.backward(mse_loss(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
    assert torch.equal(torch.cat([each.detach().flatten() for each in model.parameters()]), expected)


def test_an_audit_knows_the_prepared_optimizer_given_or_found():
    _, model, optimizer = prepared()
    optimizer.optimizer.param_groups[0]["params"].pop()  # the last bias is learnt by nobody
    x, y = batches(1)[0]
    loss = mse_loss(model(x), y)
    for report in (bs.audit(loss), bs.audit(loss, model=model, optimizer=optimizer)):
        (finding,) = report
        assert finding.code == "BS101"
        assert finding.title == "model.4.bias requires grad, but no optimizer updates it."
