"""Schedulers, hooks, checkpoints, frozen and late parameters: what a training loop does, with release attached."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest
import torch
from loops import INFINITE, assert_same, decayed, gpt, loss_of, mlp, square, train
from torch import nn, optim

import backsight as bs
from backsight.gradient_release import AlreadyStepped, NotReleasable, ReleaseError, release

BUCKETS = (0, 4096, INFINITE)


def adam(model, **settings):
    return optim.AdamW(model.parameters(), lr=1e-2, **settings)


def pair(widths=(8, 40, 40, 1), **settings):
    model = mlp(*widths)
    return model, adam(model, **settings)


@pytest.fixture(params=BUCKETS, ids=str)
def bucket(request):
    return request.param


def test_gradients_are_gone_after_backward_and_weights_have_moved():
    model, optimizer = pair()
    before = [each.detach().clone() for each in model.parameters()]
    released = release(optimizer, 0)
    square(model).backward()
    assert all(not torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))
    assert released.stepped[0] == "model.4.bias"
    assert len(released.stepped) == 6
    assert released.peak_gradient_bytes == 40 * 40 * 4


def test_step_hooks_of_the_user_are_called_once_a_step(bucket):
    model, optimizer = pair()
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    train(model, optimizer, 3, bucket=bucket)
    assert calls == ["before", "after"] * 3


def resumed(fused, *buckets):
    """Train three steps with each bucket, each time from the checkpoint of the one before, all objects made anew."""
    stored = None
    for number, bucket in enumerate(buckets):
        model = gpt()
        optimizer = optim.AdamW(decayed(model), lr=1e-2, fused=fused)
        scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=20)
        released = None if bucket is None else release(optimizer, bucket)
        parts = (model, optimizer, scheduler)
        for part, state in zip(parts, stored or (), strict=False):
            part.load_state_dict(state)
        train(
            model, optimizer, 3, loss=lambda m, step, number=number: loss_of(m, 3 * number + step), scheduler=scheduler
        )
        stored = copy.deepcopy([part.state_dict() for part in parts])
        del released
    return model, optimizer


@pytest.mark.parametrize("fused", [True, False])
def test_state_moves_both_ways_in_the_middle_of_a_training(bucket, fused):
    expected = resumed(fused, None, None, None)
    assert_same(resumed(fused, None, bucket, None), expected)
    assert_same(resumed(fused, bucket, None, bucket), expected)


def test_a_scheduler_goes_on_with_the_groups_that_load_state_dict_makes(bucket):
    def run(bucket):
        model, optimizer = pair()
        scheduler = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=20)
        train(model, optimizer, 3, bucket=bucket, scheduler=scheduler)
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        train(model, optimizer, 3, scheduler=scheduler)
        return model, optimizer

    assert_same(run(bucket), run(None))


def test_a_scheduler_still_sets_the_learning_rate_after_load_state_dict():
    model, optimizer = pair()
    scheduler = optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.0)
    release(optimizer, 0)
    train(model, optimizer, 1)
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    scheduler.step()
    before = [each.detach().clone() for each in model.parameters()]
    train(model, optimizer, 1)
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))


def test_remove_at_the_end_of_a_step_gives_the_plain_loop_back(bucket):
    expected = pair()
    train(*expected, 4)
    model, optimizer = pair()
    released = train(model, optimizer, 2, bucket=bucket)
    released.remove()
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    assert not optimizer._optimizer_load_state_dict_post_hooks
    assert all(each._post_accumulate_grad_hooks is None for each in model.parameters())
    for step in (2, 3):
        square(model, step).backward()
        assert all(type(each.grad) is torch.Tensor for each in model.parameters())
        optimizer.step()
        optimizer.zero_grad()
    assert_same((model, optimizer), expected)


def test_remove_before_zero_grad_leaves_no_placeholder():
    model, optimizer = pair()
    released = release(optimizer, 0)
    square(model).backward()
    optimizer.step()
    released.remove()
    assert all(each.grad is None for each in model.parameters())


def test_remove_in_the_middle_of_a_step_is_refused_and_changes_nothing():
    model, optimizer = pair()
    released = release(optimizer, 0)
    square(model).backward()
    with pytest.raises(ReleaseError, match=r"^remove\(\) in the middle of a step: model\.4\.bias, model\.4\.weight, "):
        released.remove()
    optimizer.step()
    released.remove()


def test_attaching_twice_is_refused_until_it_is_removed():
    _, optimizer = pair()
    released = release(optimizer)
    with pytest.raises(NotReleasable, match="This AdamW is already released: call remove"):
        release(optimizer)
    released.remove()
    release(optimizer)


@pytest.mark.parametrize("fused", [True, False])
def test_parameters_frozen_after_attaching_are_left_alone(bucket, fused):
    def run(bucket):
        model, optimizer = pair(fused=fused)
        train(model, optimizer, 2, bucket=bucket)
        model[2].weight.requires_grad_(False)
        train(model, optimizer, 2)
        return model, optimizer

    assert_same(run(bucket), run(None))


def test_parameters_unfrozen_after_attaching_are_released_from_the_next_step_on(bucket):
    def run(bucket):
        model, optimizer = pair()
        model[2].weight.requires_grad_(False)
        train(model, optimizer, 1, bucket=bucket)
        model[2].weight.requires_grad_(True)
        train(model, optimizer, 3)
        return model, optimizer

    assert_same(run(bucket), run(None))
    model, optimizer = pair()
    model[2].weight.requires_grad_(False)
    released = release(optimizer, 0)
    model[2].weight.requires_grad_(True)
    train(model, optimizer, 1)
    square(model).backward()
    assert "model.2.weight" in released.stepped


def test_groups_added_after_attaching_are_released_from_the_next_step_on(bucket):
    def run(bucket):
        model, more = mlp(8, 40, 1), mlp(8, 8, seed=1)
        optimizer = adam(model)
        loss = lambda _, step: square(nn.Sequential(more, model), step)  # noqa: E731
        train(model, optimizer, 1, bucket=bucket, loss=loss)
        optimizer.add_param_group({"params": list(more.parameters()), "lr": 0.5})
        more.zero_grad()
        train(model, optimizer, 3, loss=loss)
        return nn.ModuleList([model, more]), optimizer

    assert_same(run(bucket), run(None))


def test_parameters_taken_out_of_their_group_are_left_alone_from_the_next_step_on(bucket):
    def run(bucket):
        model, optimizer = pair()
        train(model, optimizer, 1, bucket=bucket)
        taken = optimizer.param_groups[0]["params"].pop(2)
        del optimizer.state[taken]
        square(model).backward(inputs=[model[0].weight])
        optimizer.step()
        model.zero_grad()
        train(model, optimizer, 2, zero=lambda _: model.zero_grad())
        return model, optimizer

    assert_same(run(bucket), run(None))


def test_a_model_may_change_its_type_after_attaching(bucket):
    def run(bucket):
        model, optimizer = pair()
        train(model, optimizer, 2, bucket=bucket)
        model.double()
        optimizer.state.clear()
        train(model, optimizer, 2, loss=lambda m, step: m(torch.ones(3, 8, dtype=torch.double) * step).sum())
        return model, optimizer

    assert_same(run(bucket), run(None))


def test_a_parameter_without_a_gradient_in_this_step_keeps_its_weight_and_state(bucket):
    def run(bucket):
        model = nn.ModuleList([mlp(8, 40, 1), mlp(8, 40, 1, seed=1)])
        optimizer = adam(model)
        train(model, optimizer, 4, bucket=bucket, loss=lambda m, step: square(m[step % 2], step))
        return model, optimizer

    assert_same(run(bucket), run(None))


def test_zeroing_gradients_in_place_gives_the_same_bits(bucket):
    def run(bucket, **settings):
        model = nn.ModuleList([mlp(8, 40, 1), mlp(8, 40, 1, seed=1)])
        optimizer = optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, weight_decay=0.1, **settings)
        zero = lambda o: o.zero_grad(set_to_none=False)  # noqa: E731
        train(model, optimizer, 4, bucket=bucket, loss=lambda m, step: square(m[step % 2], step), zero=zero)
        return model, optimizer

    for settings in ({"foreach": False}, {"foreach": True}):
        assert_same(run(bucket, **settings), run(None, **settings))


def test_a_copy_of_the_model_is_an_ordinary_model(bucket):
    model, optimizer = pair()
    release(optimizer, bucket)
    square(model).backward()
    copied = copy.deepcopy(model)
    assert all(each.grad is None for each in copied.parameters())
    optimizer.step()
    before = [each.detach().clone() for each in model.parameters()]
    train(copied, adam(copied), 2)
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))


@pytest.mark.filterwarnings("ignore")  # it is read in the middle of a step
def test_each_parameter_of_a_copy_is_its_own():
    model, optimizer = pair((8, *[40] * 30, 1))
    release(optimizer, 0)
    square(model).backward()
    copied = copy.deepcopy(model)
    for now, then in zip(copied.parameters(), model.parameters(), strict=True):
        assert torch.equal(now, then.detach())
    assert len({id(each) for each in copied.parameters()}) == len(list(model.parameters()))
    optimizer.step()


def test_a_plain_tensor_whose_gradient_is_gone_can_be_copied():
    weight = torch.ones(5, requires_grad=True)
    release(optim.SGD([weight], lr=0.1), 0)
    (weight * weight).sum().backward()
    assert copy.deepcopy(weight).grad is None


def test_copies_and_pickles_of_the_optimizer_are_ordinary():
    model, optimizer = pair()
    train(model, optimizer, 1, bucket=0)
    for copied in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert not copied._optimizer_step_pre_hooks


def test_nothing_keeps_the_model_or_the_optimizer_alive():
    model, optimizer = pair()
    released = release(optimizer, 0)
    train(model, optimizer, 1)
    alive = [weakref.ref(each) for each in (model[0].weight, optimizer, released)]
    del model, optimizer, released
    gc.collect()
    assert [each() for each in alive] == [None] * 3


def test_release_lives_as_long_as_the_optimizer_without_being_held():
    model, optimizer = pair()
    release(optimizer, 0)
    gc.collect()
    square(model).backward()
    assert "gone" not in repr(model[0].weight.grad)
    assert "used for a step and freed" in repr(model[0].weight.grad)


def test_a_closure_makes_an_ordinary_step(bucket):
    def run(bucket):
        model, optimizer = pair()
        released = None if bucket is None else release(optimizer, bucket)

        def closure():
            optimizer.zero_grad()
            loss = square(model)
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        if released is not None:
            assert released.grad_norm() > 0
        optimizer.zero_grad()
        return model, optimizer

    assert_same(run(bucket), run(None))


def test_a_closure_after_a_backward_that_has_stepped_is_refused():
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    with pytest.raises(AlreadyStepped, match=r"^optimizer\.step\(closure\) runs its own backward"):
        optimizer.step(lambda: square(model))


def test_autocast_around_backward_changes_nothing(bucket):
    def run(bucket):
        model = gpt()
        optimizer = optim.Muon([each for each in model.blocks.parameters() if each.dim() == 2], lr=1e-2)
        released = None if bucket is None else release(optimizer, bucket)
        for step in range(3):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_of(model, step)
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        del released
        return model, optimizer

    assert_same(run(bucket), run(None))


@pytest.mark.parametrize("first", ["recorder", "release"])
@pytest.mark.parametrize("bucket", [0, 4096])
def test_a_recorder_sees_every_gradient_whichever_was_attached_first(first, bucket, tmp_path):
    def run(name, bucket):
        model, optimizer = pair((8, 200, 200, 1))
        if bucket is not None and first == "release":
            release(optimizer, bucket)
        with bs.record(model, optimizer, tmp_path / name, every=1):
            if bucket is not None and first == "recorder":
                release(optimizer, bucket)
            train(model, optimizer, 3)
        rows = bs.open_run(tmp_path / name).frame(stat=("mean", "l2"), as_="arrow").to_pylist()
        return sorted(rows, key=lambda row: (row["step"], row["kind"], row["tensor"]))  # small gradients may wait

    expected, found = run("ordinary", None), run("released", bucket)
    assert found == expected
    assert any(row["kind"] == "grad" for row in found)
