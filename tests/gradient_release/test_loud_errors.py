"""What cannot be exact raises, and says which parameter it was and what to do; nothing is silently wrong."""

from __future__ import annotations

import re
import warnings

import pytest
import torch
from loops import INFINITE, assert_same, mlp, square, train
from torch import nn, optim
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.utils.checkpoint import checkpoint

from backsight.gradient_release import AlreadyStepped, GradientGone, ReleaseWarning, release


def pair(widths=(8, 40, 40, 1), **settings):
    model = mlp(*widths)
    return model, optim.AdamW(model.parameters(), lr=1e-2, **settings)


def test_a_second_backward_in_one_step_raises_and_names_the_parameter():
    model, optimizer = pair()
    released = release(optimizer, 0)
    loss, other = square(model), model[4:](torch.ones(1, 40)).sum()
    loss.backward()
    with pytest.raises(
        AlreadyStepped, match=r"^model\.4\.bias received a second gradient.*`with release\.accumulate\(\):`"
    ):
        other.backward()
    assert "model.0.weight" in released.stepped


def test_a_second_backward_is_summed_as_ever_while_no_bucket_is_full():
    def run(bucket):
        model, optimizer = pair()
        released = None if bucket is None else release(optimizer, bucket)
        for step in range(3):
            square(model, step).backward()
            square(model, step + 10).backward()
            optimizer.step()
            optimizer.zero_grad()
        del released
        return model, optimizer

    assert_same(run(INFINITE), run(None))
    assert_same(run(10**6), run(None))


def test_forgetting_zero_grad_raises_in_the_next_backward():
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    optimizer.step()
    with pytest.raises(AlreadyStepped, match=r"call zero_grad\(\) after each optimizer\.step\(\)"):
        square(model, 1).backward()


def test_retaining_the_graph_and_going_through_it_twice_raises():
    model, optimizer = pair()
    release(optimizer, 0)
    loss = square(model)
    with pytest.warns(ReleaseWarning, match="share"):  # the graph that is kept shares the memory of weights
        loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=r"^model\.4\.bias received a second gradient"):
        loss.backward()


def shared(reentrant):
    class Shared(nn.Module):
        """One layer in two checkpoints."""

        def __init__(self):
            super().__init__()
            self.layer, self.last = nn.Linear(8, 8), nn.Linear(8, 1)

        def forward(self, x):
            x = x.requires_grad_()
            for _ in range(2):
                x = checkpoint(lambda y: torch.tanh(self.layer(y)), x, use_reentrant=reentrant)
            return self.last(x)

    torch.manual_seed(0)
    model = Shared()
    return model, optim.AdamW(model.parameters(), lr=1e-2)


@pytest.mark.parametrize("bucket", [0, 64, INFINITE])
def test_a_layer_in_two_checkpoints_has_one_gradient(bucket):
    expected = shared(reentrant=False)
    train(*expected, 3)
    model, optimizer = shared(reentrant=False)
    train(model, optimizer, 3, bucket=bucket)
    assert_same((model, optimizer), expected)


def test_a_layer_in_two_reentrant_checkpoints_is_exact_while_no_bucket_is_full():
    expected = shared(reentrant=True)
    train(*expected, 3)
    model, optimizer = shared(reentrant=True)
    train(model, optimizer, 3, bucket=INFINITE)
    assert_same((model, optimizer), expected)


@pytest.mark.parametrize("bucket", [0, 64, INFINITE])
def test_tied_weights_and_layers_used_several_times_have_one_gradient(bucket):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.layer, self.head = nn.Embedding(20, 8), nn.Linear(8, 8), nn.Linear(8, 20, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, x):
            x = self.embedding(x.abs().long() % 20)
            return self.head(torch.tanh(self.layer(torch.tanh(self.layer(x)))))

    def run(bucket):
        torch.manual_seed(0)
        model = Tied()
        optimizer = optim.AdamW(model.parameters(), lr=1e-2, fused=True)
        train(model, optimizer, 3, bucket=bucket)
        return model, optimizer

    assert_same(run(bucket), run(None))


@pytest.mark.parametrize("bucket", [0, 4096, INFINITE])
@pytest.mark.parametrize("norm_type", [2.0, 1.0])
def test_clip_grad_norm_that_clips_raises_and_one_that_does_not_is_honoured(bucket, norm_type):
    expected, _ = pair()
    square(expected).backward()
    norm = clip_grad_norm_(expected.parameters(), 1e9)

    model, optimizer = pair()
    released = release(optimizer, bucket)
    square(model).backward()
    assert torch.equal(clip_grad_norm_(model.parameters(), 1e9), norm)
    assert torch.equal(clip_grad_norm_(model.parameters(), 1e9, foreach=False), norm)
    if bucket == INFINITE:
        clip_grad_norm_(model.parameters(), norm / 2, norm_type=norm_type)
    else:
        message = (
            r"Call release\.clip\(max_norm\) once"
            if norm_type == 2.0
            else r"not a norm of order 1.*release\.accumulate"
        )
        with pytest.raises(GradientGone, match=message):
            clip_grad_norm_(model.parameters(), norm / 2, norm_type=norm_type)
        if bucket == 0:
            assert torch.equal(released.grad_norm(), norm)


LATE = (
    r"^clip_grad_norm_ .* works only while the norm stays below 1000\.0: larger gradients have already been used by "
    r"the step, and raise GradientGone\. "
    r"Call release\.clip\(1000\.0\) once, before"
)


@pytest.mark.parametrize("foreach", [None, False, True])
def test_the_first_clip_grad_norm_that_has_nothing_to_clip_warns_that_a_later_one_will_raise(foreach):
    model, optimizer = pair()
    release(optimizer, 0)
    for step in range(3):
        square(model, step).backward()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            clip_grad_norm_(model.parameters(), 1000, foreach=foreach)
        optimizer.step()
        optimizer.zero_grad()
        assert [each.category for each in told] == [ReleaseWarning] * (step == 0)
        assert all(re.match(LATE, str(each.message)) and each.filename == __file__ for each in told)


@pytest.mark.parametrize(
    "use",
    [
        lambda model: clip_grad_norm_(model.parameters(), INFINITE),  # asks for the norm alone
        lambda model: [each.grad.mul_(torch.ones(())) for each in model.parameters()],
        lambda model: [each.grad.mul_(1.0) for each in model.parameters()],
    ],
)
def test_what_never_clips_is_not_warned_of(use):
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReleaseWarning)
        use(model)


def test_gradients_that_are_still_there_are_clipped_without_a_warning():
    model, optimizer = pair()
    release(optimizer, INFINITE)
    square(model).backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReleaseWarning)
        clip_grad_norm_(model.parameters(), 1000)


def test_clip_grad_norm_with_foreach_is_answered_as_well():
    expected, _ = pair()
    square(expected).backward()
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    norm = clip_grad_norm_(expected.parameters(), 1e9)
    assert torch.equal(clip_grad_norm_(model.parameters(), 1e9, foreach=True), norm)
    with pytest.raises(
        GradientGone, match=r"It is too late to scale it by 0\.5.* if you clip them all\. To clip only some"
    ):
        clip_grad_norm_(model.parameters(), norm / 2, foreach=True)


@pytest.mark.parametrize(
    "read",
    [
        lambda grad: grad.sum(),
        lambda grad: grad + 1,
        lambda grad: grad.clone(),
        lambda grad: grad.tolist(),
        lambda grad: grad.numpy(),
        lambda grad: grad[0],
        lambda grad: grad.copy_(torch.ones(40)),
        lambda grad: grad.div_(2),
        lambda grad: grad.abs().max().item(),
        lambda grad: torch.save(grad, "/dev/null"),
        lambda grad: torch.ones(40).add_(grad),
        lambda grad: torch.isfinite(grad),
    ],
)
def test_reading_or_changing_a_gradient_that_is_gone_raises(read):
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    with pytest.raises((GradientGone, AlreadyStepped), match=r"model\.2\.bias"):
        read(model[2].bias.grad)


def test_clip_grad_value_and_unscaling_of_gradients_that_are_gone_raise():
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    with pytest.raises(GradientGone, match="was used for a step"):
        clip_grad_value_(model.parameters(), 0.1)
    found, scale = torch.zeros(1), torch.ones(1)
    with pytest.raises(GradientGone, match=r"bfloat16 needs no scaler"):
        torch._amp_foreach_non_finite_check_and_unscale_([model[0].weight.grad], found, scale)


def test_what_a_gradient_that_is_gone_still_tells():
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    gone = model[2].weight.grad
    assert (gone.shape, gone.dtype, gone.device.type, gone.numel()) == ((40, 40), torch.float32, "cpu", 1600)
    assert repr(gone).startswith("<the gradient of model.2.weight, used for a step and freed; norm_taken=0.")
    assert gone.norm() > 0
    assert gone.detach() is not None


def test_a_gradient_put_in_place_of_one_that_was_used_raises():
    model, optimizer = pair()
    release(optimizer, 0)
    square(model).backward()
    model[2].weight.grad = torch.zeros(40, 40)
    with pytest.raises(AlreadyStepped, match=r"^model\.2\.weight has a new gradient but was already stepped"):
        optimizer.step()


def test_a_second_optimizer_that_steps_the_same_parameters_finds_their_gradients_gone():
    model, optimizer = pair()
    release(optimizer, 0)
    other = optim.SGD(model.parameters(), lr=0.1)
    square(model).backward()
    with pytest.raises(GradientGone):
        other.step()


class Bomb(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ArithmeticError("in the middle of backward")


def exploding():
    """Return a training of which a step has failed in the middle of backward, and the weights before it."""
    model, optimizer = pair()
    released = release(optimizer, 0)
    train(model, optimizer, 2)
    stored = {key: value.clone() for key, value in model.state_dict().items()}, optimizer.state_dict()
    x = torch.randn(4, 8)
    with pytest.raises(ArithmeticError):
        model[2:](Bomb.apply(model[:2](x))).sum().backward()
    return model, optimizer, released, stored


def test_an_exception_in_backward_leaves_it_known_which_parameters_have_taken_the_step():
    model, _, released, (weights, _) = exploding()
    assert released.stepped == ("model.4.bias", "model.4.weight", "model.2.bias", "model.2.weight")
    with pytest.warns(ReleaseWarning, match="is read between"):
        now_stored = model.state_dict()
    for name, now in now_stored.items():
        assert torch.equal(now, weights[name]) == (f"model.{name}" not in released.stepped)
    with pytest.raises(AlreadyStepped):
        square(model).backward()


def test_after_an_exception_in_backward_the_step_can_be_ended_as_it_is():
    model, optimizer, released, _ = exploding()
    optimizer.zero_grad()
    optimizer.step()
    assert released.stepped == ()
    train(model, optimizer, 2)
    released.remove()


def test_after_an_exception_in_backward_a_checkpoint_can_be_loaded():
    expected = pair()
    train(*expected, 2)
    train(*expected, 2)
    model, optimizer, released, (weights, state) = exploding()
    model.load_state_dict(weights)
    for entries in state["state"].values():
        assert entries["step"] in (2, 3)
    fresh_model, fresh = pair()
    train(fresh_model, fresh, 2)
    optimizer.load_state_dict(fresh.state_dict())
    assert released.stepped == ()
    train(model, optimizer, 2)
    assert_same((model, optimizer), expected)


def test_an_exception_in_the_optimizer_keeps_gradients_for_the_next_try():
    model, optimizer = pair(foreach=False)
    release(optimizer, 0)
    optimizer.param_groups[0]["betas"] = None
    with pytest.raises(TypeError):
        square(model).backward()
    assert type(model[4].bias.grad) is torch.Tensor
    assert len(optimizer.param_groups[0]["params"]) == 6


@pytest.mark.parametrize("bucket", [0, 4096, INFINITE])
def test_gradients_with_a_graph_are_kept_for_who_made_it(bucket):
    def run(bucket):
        model, optimizer = pair()
        released = None if bucket is None else release(optimizer, bucket)
        for step in range(3):
            square(model, step).backward(create_graph=True)
            penalty = sum(each.grad.square().sum() for each in model.parameters())
            penalty.backward()
            optimizer.step()
            optimizer.zero_grad()
        del released
        return model, optimizer

    assert_same(run(bucket), run(None))


@pytest.mark.parametrize("bucket", [0, 4096, INFINITE])
def test_backward_for_some_inputs_only_steps_those(bucket):
    def run(bucket):
        model, optimizer = pair()
        released = None if bucket is None else release(optimizer, bucket)
        for step in range(3):
            square(model, step).backward(inputs=[model[2].weight, model[4].bias])
            optimizer.step()
            optimizer.zero_grad()
        del released
        return model, optimizer

    assert_same(run(bucket), run(None))


def test_autograd_grad_steps_nothing():
    model, optimizer = pair()
    released = release(optimizer, 0)
    before = [each.detach().clone() for each in model.parameters()]
    gradients = torch.autograd.grad(square(model), list(model.parameters()))
    assert len(gradients) == 6
    assert released.stepped == ()
    assert all(torch.equal(now, then) for now, then in zip(model.parameters(), before, strict=True))
