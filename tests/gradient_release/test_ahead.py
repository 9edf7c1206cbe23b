"""Who uses a parameter while it is ahead: stepped inside of backward, with `optimizer.step()` still to come."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings

import pytest
import torch
from loops import assert_same, mlp, square, train
from torch import nn, optim
from torch.utils.checkpoint import checkpoint

from backsight.gradient_release import AlreadyStepped, ReleaseError, ReleaseWarning, release


def pair(bucket=0, widths=(8, 40, 40, 1)):
    model = mlp(*widths)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    return model, optimizer, None if bucket is None else release(optimizer, bucket)


def decay(model):
    for each in model.parameters():
        each.data.mul_(0.99)


def decay_into_new_memory(model):
    for each in model.parameters():
        each.data = each.data.add(each.data, alpha=-0.01)


def zero_a_row(model):
    model[2].weight.data[7].zero_()


def clamp_the_largest(model):
    weight = model[2].weight.data
    weight.clamp_(max=float(weight.max()) - 1e-6)


def decay_all_at_once(model):
    torch._foreach_mul_([each.data for each in model.parameters()], 0.99)


def round_a_view_of_a_view(model):
    model[0].weight.data.t().flatten(0).view(-1)
    model[0].weight.data.t().round_()


@pytest.mark.filterwarnings("ignore::backsight.gradient_release.ReleaseWarning")
@pytest.mark.parametrize(
    "write",
    [decay, decay_into_new_memory, zero_a_row, clamp_the_largest, decay_all_at_once, round_a_view_of_a_view],
    ids=lambda write: write.__name__,
)
def test_a_write_through_data_between_backward_and_step_raises(write):
    model, optimizer, _ = pair()
    square(model).backward()
    write(model)
    with pytest.raises(AlreadyStepped, match=r"^model\..* changed between backward\(\) and optimizer\.step\(\)"):
        optimizer.step()


@pytest.mark.parametrize(
    "write", [decay, decay_into_new_memory, zero_a_row, decay_all_at_once], ids=lambda write: write.__name__
)
@pytest.mark.parametrize("bucket", [0, 4096])
def test_a_write_through_data_after_the_step_is_that_of_the_ordinary_loop(write, bucket):
    def run(bucket):
        model, optimizer, _ = pair(bucket)
        for step in range(3):
            square(model, step).backward()
            optimizer.step()
            write(model)
            optimizer.zero_grad()
        return model, optimizer

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(run(bucket), run(None))


def test_memory_that_is_put_back_before_the_step_is_no_change():
    def run(bucket):
        model, optimizer, _ = pair(bucket)
        for step in range(3):
            square(model, step).backward()
            held = [each.data for each in model.parameters()]
            for each in model.parameters():
                each.data = torch.zeros_like(each)
            for each, data in zip(model.parameters(), held, strict=True):
                each.data = data
            optimizer.step()
            optimizer.zero_grad()
            del held, data
        return model, optimizer

    with pytest.warns(ReleaseWarning, match="is read between"):
        assert_same(run(0), run(None))


class Coded(nn.Module):
    """Uses its code with a gradient, and once more, earlier, without."""

    def __init__(self, early):
        super().__init__()
        self.first, self.code, self.last = nn.Linear(8, 8), nn.Parameter(torch.eye(8) + 0.1), nn.Linear(8, 1)
        self.early = early

    def forward(self, x):
        return self.last(self.early(self, self.first(x)) @ self.code)


class Scaled(torch.autograd.Function):
    """Keeps what it multiplied by as an attribute, where no version of it is checked."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.weight = weight
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        return grad @ ctx.weight.t(), None


class ReadsItsModel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, model):
        ctx.model = model
        return x @ model.code

    @staticmethod
    def backward(ctx, grad):
        return grad @ ctx.model.code.t(), None


def again(function):
    return lambda model, x: checkpoint(function, model, x, use_reentrant=False)


def with_a_hook(model, x):
    x.register_hook(lambda grad: grad * model.last.weight.sum().item())
    return x


READS = {
    "detached": again(lambda model, x: torch.tanh(x @ model.code.detach()) * x),
    "data": again(lambda model, x: torch.sin(x * model.code.data.norm())),
    "without_grad": again(lambda model, x: torch.tanh(x * largest(model.last.weight))),
    "number": again(lambda model, x: torch.tanh(x * model.last.bias.item())),
    "listed": again(lambda model, x: torch.tanh(x * model.code.tolist()[1][1])),
    "function": lambda model, x: ReadsItsModel.apply(x, model),
    "hook": with_a_hook,
}


@torch.no_grad()
def largest(weight):
    return weight.abs().amax()


def coded(early, bucket, *, steps=3, **settings):
    torch.manual_seed(0)
    model = Coded(early)
    optimizer = optim.AdamW(model.parameters(), lr=1e-2, **settings)
    train(model, optimizer, steps, bucket=bucket)
    return model, optimizer


@pytest.mark.parametrize("early", READS.values(), ids=READS)
def test_a_weight_that_is_read_inside_of_backward_after_its_step_raises(early):
    with pytest.raises(AlreadyStepped, match=r"^\S+ is read inside the backward pass, which already stepped it"):
        coded(early, 0)


def test_who_reads_inside_of_backward_is_told_what_is_exact_instead():
    with pytest.raises(AlreadyStepped, match=r"`held = code\.detach\(\)`, and read that"):
        coded(READS["detached"], 0)

    def held(model, x):
        code = model.code.detach()
        return checkpoint(lambda x: torch.tanh(x @ code) * x, x, use_reentrant=False)

    with pytest.warns(ReleaseWarning, match=r"^The gradients of \S*code wait for optimizer\.step\(\)"):
        found = coded(held, 0)
    assert_same(found, coded(READS["detached"], None))


def test_a_weight_that_is_read_under_accumulate_is_that_of_the_ordinary_loop():
    torch.manual_seed(0)
    model = Coded(READS["detached"])
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    released = release(optimizer, 0)
    for step in range(3):
        with released.accumulate():
            square(model, step).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert_same((model, optimizer), coded(READS["detached"], None))


SHARED = {
    "saved": lambda model, x: (x @ model.code.detach()).sin(),
    "attribute": lambda model, x: Scaled.apply(x, model.code.detach()),
    "view": lambda model, x: Scaled.apply(x, model.code.data.t()),
}


@pytest.mark.filterwarnings("ignore::backsight.gradient_release.ReleaseWarning")
@pytest.mark.parametrize("settings", [{"fused": True}, {"foreach": True}, {"foreach": False}], ids=str)
@pytest.mark.parametrize("early", SHARED.values(), ids=SHARED)
def test_a_weight_whose_memory_the_graph_shares_waits_and_is_exact(early, settings):
    assert_same(coded(early, 0, **settings), coded(early, None, **settings))


def test_a_weight_that_a_numpy_array_shares_can_be_changed_by_it_as_ever():
    def run(bucket):
        model, optimizer, _ = pair(bucket)
        array = model[2].weight.detach().numpy()
        for step in range(3):
            square(model, step).backward()
            array *= 0.99
            optimizer.step()
            optimizer.zero_grad()
        return model, optimizer

    with pytest.warns(ReleaseWarning, match=r"^The gradients of model\.2\.weight wait for optimizer\.step\(\)"):
        found = run(0)
    assert_same(found, run(None))


def test_what_no_other_tensor_shares_is_released_without_a_word():
    model, _, released = pair()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        square(model).backward()
        assert len(released.stepped) == 6
        assert [(each.shape, each.dtype, each.requires_grad, each.numel()) for each in model.parameters()]
        assert sum(each.grad.norm() for each in model.parameters()) > 0


def test_a_further_forward_before_the_step_raises():
    model, _, _ = pair()
    square(model).backward()
    message = r"^model\.0\.weight is used in another forward before optimizer\.step\(\).*release\.accumulate\(\)"
    with pytest.raises(AlreadyStepped, match=message):
        square(model, 1)


def test_a_frozen_model_through_which_another_goes_before_its_step_raises():
    model, _, _ = pair()
    square(model).backward()
    model.requires_grad_(False)
    with pytest.raises(AlreadyStepped, match="is used in another forward before"):
        model(torch.ones(1, 8, requires_grad=True))


def evaluate(model):
    with torch.no_grad():
        return model(torch.ones(1, 8))


READINGS = {
    "state_dict": lambda model: model.state_dict(),
    "evaluate": evaluate,
    "copy": copy.deepcopy,
    "pickle": pickle.dumps,
    "average": lambda model: torch._foreach_lerp_([torch.zeros(40, 40)], [model[2].weight.detach()], 0.1),
    "norm": lambda model: model[2].weight.detach().norm(),
    "number": lambda model: model[4].bias.item(),
}


@pytest.mark.parametrize("read", READINGS.values(), ids=READINGS)
def test_reading_weights_between_backward_and_step_warns_once_and_names_the_line(read):
    model, optimizer, _ = pair()
    square(model).backward()
    with pytest.warns(
        ReleaseWarning, match=r"^model\.\S+ is read between backward\(\) and optimizer\.step\(\)"
    ) as told:
        read(model)
        read(model)
    assert len(told) == 1
    if read not in (copy.deepcopy, pickle.dumps):
        assert told[0].filename == __file__
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(model)


@pytest.mark.parametrize("bucket", [0, None])
@pytest.mark.slow
def test_a_compiled_model_is_evaluated_between_backward_and_step_with_a_warning(bucket):
    torch._dynamo.reset()
    model, optimizer, _ = pair(bucket)
    for part in (model[0], model[2], model[4]):
        part.compile(backend="aot_eager")
    for step in range(3):
        square(model, step).backward()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", "Guards may run slower")  # PyTorch's own, on Python 3.13.0
            evaluate(model)
        assert [each.category for each in told] == [ReleaseWarning] * (bucket is not None)
        optimizer.step()
        optimizer.zero_grad()
    expected = pair(None)
    train(*expected[:2])
    assert_same((model, optimizer), expected[:2])


def test_copies_of_a_parameter_that_is_ahead_are_plain():
    for weight in (nn.Parameter(torch.ones(3)), torch.ones(3, requires_grad=True)):
        weight.kept = "attribute"
        optimizer = optim.SGD([weight], lr=0.1)
        release(optimizer, 0)
        weight.sum().backward()
        assert type(weight).__name__ == type(weight).__mro__[2].__name__
        with pytest.warns(ReleaseWarning):
            copies = [copy.deepcopy(weight), pickle.loads(pickle.dumps(weight)), *copy.deepcopy([weight, weight])]
        optimizer.step()
        assert type(weight) in (nn.Parameter, torch.Tensor)
        assert [type(each) for each in copies] == [type(weight)] * 4
        assert copies[2] is copies[3]
        assert all(torch.equal(each, weight) and each.requires_grad for each in copies)


def test_parameters_are_of_their_own_class_after_the_step_and_after_the_release():
    model, optimizer, _ = pair()
    train(model, optimizer, 2)
    assert {type(each) for each in model.parameters()} == {nn.Parameter}
    square(model).backward()
    assert {type(each) for each in model.parameters()} != {nn.Parameter}
    assert all(isinstance(each, nn.Parameter) for each in model.parameters())
    optimizer.load_state_dict(pair(None)[1].state_dict())
    assert {type(each) for each in model.parameters()} == {nn.Parameter}
    optimizer.zero_grad()
    square(model).backward()
    del optimizer, _
    gc.collect()
    assert {type(each) for each in model.parameters()} == {nn.Parameter}


class Tagged(torch.Tensor):
    """A class of the program, whose results are of it as well."""


def test_a_class_of_the_program_has_its_word_beside_a_parameter_that_is_ahead():
    model, optimizer, _ = pair()
    square(model).backward()
    with pytest.warns(ReleaseWarning), torch.no_grad():
        found = nn.functional.linear(torch.ones(1, 8).as_subclass(Tagged), model[0].weight)
    assert type(found) is Tagged
    assert type(model[0].weight) is not nn.Parameter
    optimizer.step()
    with torch.no_grad():
        assert torch.equal(nn.functional.linear(torch.ones(1, 8), model[0].weight), found.as_subclass(torch.Tensor))


@pytest.mark.parametrize("zero", ["optimizer", "in_place", "model", "model_in_place"])
def test_zeroing_gradients_to_skip_the_last_step_warns(zero):
    model, optimizer, _ = pair()
    square(model).backward()
    whose = model if "model" in zero else optimizer
    with pytest.warns(
        ReleaseWarning, match=r"^zero_grad\(\) came before optimizer\.step\(\), but model\.4\.bias"
    ) as told:
        whose.zero_grad(set_to_none="in_place" not in zero)
    assert len(told) == 1
    assert told[0].filename == __file__


def test_zeroing_gradients_of_a_step_that_is_kept_or_done_says_nothing():
    model, optimizer, released = pair()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with released.accumulate():
            square(model).backward()
        optimizer.zero_grad()
        train(model, optimizer, 2)
        train(model, optimizer, 2, zero=lambda optimizer: optimizer.zero_grad(set_to_none=False))
        train(model, optimizer, 2, zero=lambda _: model.zero_grad())


def test_remove_in_the_middle_of_a_step_still_raises():
    model, _, released = pair()
    square(model).backward()
    with pytest.raises(ReleaseError, match=r"^remove\(\) in the middle of a step"):
        released.remove()
