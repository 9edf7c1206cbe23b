"""What the ordinary loop may do between backward and step, when some parameters have already taken the step."""

from __future__ import annotations

import copy
import gc
import io
import weakref

import pytest
import torch
from loops import assert_same, mlp, square, train
from torch import nn
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import ExponentialLR

from backsight.gradient_release import AlreadyStepped, GradientGone, NotReleasable, ReleaseWarning, release


def pair(**settings):
    model = mlp(8, 40, 40, 1)
    return model, AdamW(model.parameters(), **{"lr": 1e-2, "fused": True, **settings})


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning")
@pytest.mark.parametrize("lr", [1e-2, torch.tensor(1e-2)], ids=["float", "tensor"])
def test_a_learning_rate_set_between_backward_and_step_raises(lr):
    model, optimizer = pair(lr=lr)
    scheduler = ExponentialLR(optimizer, 0.5)
    release(optimizer, 0)
    square(model).backward()
    scheduler.step()
    with pytest.raises(AlreadyStepped, match=r"^'lr' of group 0 changed.* model\.4\.bias.*Set it before backward"):
        optimizer.step()


def test_a_learning_rate_set_before_backward_is_that_of_the_ordinary_loop():
    def run(bucket):
        model, optimizer = pair()
        if bucket is not None:
            release(optimizer, bucket)
        for step in range(4):
            optimizer.param_groups[0]["lr"] = 0.1 / (step + 1)
            optimizer.zero_grad()
            square(model, step).backward()
            optimizer.step()
        return model, optimizer

    assert_same(run(0), run(None))


def test_a_hook_of_the_user_before_the_step_cannot_set_a_learning_rate_unseen():
    model, optimizer = pair()
    release(optimizer, 0)
    optimizer.register_step_pre_hook(lambda optimizer, *_: optimizer.param_groups[0].update(lr=0.5))
    square(model).backward()
    with pytest.raises(AlreadyStepped, match=r"from 0\.01 to 0\.5"):
        optimizer.step()


def test_a_hook_of_the_user_that_clips_before_the_step_sees_what_is_gone():
    model, optimizer = pair()
    release(optimizer, 0)

    def clip(*_):
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3)

    optimizer.register_step_pre_hook(clip)
    square(model).backward()
    with pytest.raises(GradientGone, match=r"release\.clip\(max_norm\)"):
        optimizer.step()


def test_a_weight_that_changes_between_backward_and_step_raises():
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    with torch.no_grad():
        model[2].weight.mul_(0.9)
    with pytest.raises(AlreadyStepped, match=r"^model\.2\.weight changed between backward\(\) and optimizer\.step\(\)"):
        optimizer.step()


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_that_are_taken_away_to_skip_a_step_raise_once(to_none):
    model, optimizer = pair()
    released = release(optimizer, 0)
    square(model).backward()
    optimizer.zero_grad(set_to_none=to_none)
    with pytest.raises(AlreadyStepped, match=r"were removed between backward\(\) and optimizer\.step\(\)"):
        optimizer.step()
    optimizer.step()
    assert released.stepped == ()
    train(model, optimizer, 2)


def test_gradients_of_one_layer_that_are_taken_away_raise_with_its_name():
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    model[4].weight.grad = None
    with pytest.raises(AlreadyStepped, match=r"^The gradients of model\.4\.weight were removed"):
        optimizer.step()


def test_within_accumulate_all_of_this_is_allowed_and_exact():
    def run(bucket):
        model, optimizer = pair()
        released = None if bucket is None else release(optimizer, bucket)
        for step in range(3):
            if released is None:
                square(model, step).backward()
            else:
                with released.accumulate():
                    square(model, step).backward()
            optimizer.param_groups[0]["lr"] = 0.1 / (step + 1)
            model[4].weight.grad = None
            with torch.no_grad():
                model[2].weight.mul_(0.9)
            optimizer.step()
            optimizer.zero_grad()
        return model, optimizer

    assert_same(run(0), run(None))


def test_a_hook_of_the_user_may_zero_gradients_after_the_step():
    def run(bucket):
        model, optimizer = pair()
        optimizer.register_step_post_hook(lambda optimizer, *_: optimizer.zero_grad())
        if bucket is not None:
            release(optimizer, bucket)
        for step in range(3):
            square(model, step).backward()
            optimizer.step()
        return model, optimizer

    assert_same(run(0), run(None))


def test_a_second_step_with_the_same_gradients_raises():
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    optimizer.step()
    with pytest.raises(AlreadyStepped, match=r"ran a second time for the same gradient of model\.0\.weight"):
        optimizer.step()


def test_a_step_that_failed_can_be_tried_again():
    def run(bucket):
        model, optimizer = pair()
        if bucket is not None:
            release(optimizer, bucket)
        for step in range(3):
            square(model, step).backward()
            if bucket is not None:
                failing = optimizer.register_step_pre_hook(lambda *_: 1)  # which is no answer that a hook may give
                with pytest.raises(RuntimeError, match="must return None or a tuple"):
                    optimizer.step()
                failing.remove()
            optimizer.step()
            optimizer.zero_grad()
        return model, optimizer

    assert_same(run(4096), run(None))


def test_storing_a_state_in_the_middle_of_a_step_warns():
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    with pytest.warns(ReleaseWarning, match=r"^state_dict\(\) in the middle of a step: model\.4\.bias") as told:
        optimizer.state_dict()
    assert told[0].filename == __file__
    optimizer.step()


@pytest.mark.parametrize("bucket", [0, 4096])
def test_a_closure_is_released_as_well(bucket):
    def run(bucket):
        model, optimizer = pair()
        released = None if bucket is None else release(optimizer, bucket)
        seen = []
        for step in range(4):

            def closure(step=step):
                optimizer.zero_grad()
                loss = square(model, step)
                loss.backward()
                seen.append(sum(type(each.grad) is torch.Tensor for each in model.parameters()))
                return loss

            optimizer.step(closure)
        return model, optimizer, released, seen

    model, optimizer, released, alive = run(bucket)
    assert max(alive) < 6
    assert float(released.grad_norm()) > 0
    assert_same((model, optimizer), run(None)[:2])


def test_a_parameter_that_is_taken_out_of_its_group_is_not_stepped_any_more():
    def run(bucket):
        model, optimizer = pair()
        if bucket is not None:
            release(optimizer, bucket)
        train(model, optimizer, 2)
        group = optimizer.param_groups[0]
        group["params"] = [each for each in group["params"] if each is not model[2].weight]
        for step in range(2):
            optimizer.zero_grad()
            model.zero_grad()
            square(model, step).backward()
            optimizer.step()
        return model

    for one, other in zip(run(0).parameters(), run(None).parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_parameter_that_is_held_twice_is_refused():
    model = mlp(8, 40, 1)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = SGD([*model.parameters(), model[0].weight], lr=0.1)
    with pytest.raises(NotReleasable, match=r"^This SGD holds 1 of its parameters more than once"):
        release(optimizer)


def test_a_model_may_move_and_be_shared_before_gradients_are_zeroed():
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    optimizer.step()
    model.double().to(torch.bfloat16).float().to(memory_format=torch.contiguous_format)
    model.share_memory()
    torch.save(model, io.BytesIO())
    assert copy.deepcopy(model)[0].weight.grad is None
    optimizer.zero_grad()
    train(model, optimizer, 2)


def test_a_gradient_may_have_another_type_than_its_parameter():
    def run(bucket):
        model = mlp(8, 40, 40, 1).bfloat16()
        for each in model.parameters():
            each.grad_dtype = torch.float32
        optimizer = SGD(model.parameters(), lr=0.1)
        if bucket is not None:
            release(optimizer, bucket)
        for step in range(2):
            optimizer.zero_grad()
            model(torch.randn(4, 8, generator=torch.Generator().manual_seed(step)).bfloat16()).sum().backward()
            optimizer.step()
        return model, optimizer

    assert_same(run(0), run(None))


def test_values_cannot_be_put_into_a_gradient_that_is_gone():
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    gradient = model[2].weight.grad
    assert gradient.div_(1) is gradient
    with pytest.raises(GradientGone, match="too late to set its values"):
        gradient.data = torch.ones(40, 40)


def test_a_model_left_in_the_middle_of_a_step_is_freed():
    model, optimizer = pair()
    released = release(optimizer, 0)
    square(model).backward()
    assert released.stepped
    weight = weakref.ref(model[0].weight)
    del model, optimizer, released
    gc.collect()
    assert weight() is None


def test_a_model_that_outlives_its_released_optimizer_is_an_ordinary_one():
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    del optimizer
    gc.collect()
    model.zero_grad()
    fresh = SGD(model.parameters(), lr=0.1)
    square(model).backward()
    assert all(type(each.grad) is torch.Tensor for each in model.parameters())
    fresh.step()
    weight = weakref.ref(model[0].weight)
    del model, fresh
    gc.collect()
    assert weight() is None


class Scaled(SGD):
    """Scales by an attribute, and by what its step is given."""

    factor = 1.0

    @torch.no_grad()
    def step(self, scale=1.0, *, also=1.0):
        for each in self.param_groups[0]["params"]:
            if each.grad is not None:
                each.sub_(each.grad, alpha=0.1 * scale * also * self.factor)


@pytest.mark.parametrize(("given", "named"), [(((0.5,), {}), "argument 1"), (((), {"also": 0.5}), "also")])
def test_what_a_step_is_called_with_is_refused_where_a_part_of_it_was_taken_without(given, named):
    model = mlp(8, 40, 40, 1)
    optimizer = Scaled(model.parameters(), lr=0.1)
    released = release(optimizer, 0)
    square(model).backward()
    with pytest.raises(AlreadyStepped, match=rf"^Scaled\.step\(\) is called with {named}, and model\.4.*accumulate"):
        optimizer.step(*given[0], **given[1])
    optimizer.step()
    optimizer.zero_grad()
    with released.accumulate():
        square(model).backward()
    optimizer.step(*given[0], **given[1])


def test_an_attribute_of_the_optimizer_set_between_backward_and_step_raises():
    model = mlp(8, 40, 40, 1)
    optimizer = Scaled(model.parameters(), lr=0.1)
    release(optimizer, 0)
    square(model).backward()
    optimizer.factor = 0.5
    with pytest.raises(AlreadyStepped, match=r"^'factor' of the optimizer changed.*model\.4.*Set it before backward"):
        optimizer.step()
