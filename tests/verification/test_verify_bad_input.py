"""Input on which a test of gradients stumbles: none at all, integers, aliases, kinks, singular points, too much."""

from __future__ import annotations

import cProfile
import random
import sys
import warnings
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import wrong
from torch import nn
from torch.autograd import Function
from torch.nn import functional as F

import backsight as bs
from backsight.verification.errors import OutOfTime


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def index(x: torch.Tensor) -> torch.Tensor:
    return x.argmax()


# ---- nothing to verify


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            (index, normal(3)),
            "verify() called index, which returned an int64 tensor of shape (): integers and booleans have no "
            "gradient. Return what they were made from.",
        ),
        (
            (torch.neg, torch.arange(3)),
            "verify() called neg, which returned an int64 tensor of shape 3: integers and booleans have no gradient. "
            "Return what they were made from.",
        ),
        (
            (lambda i: torch.ones(3)[i], torch.arange(3)),
            "verify() called lambda with an int64 tensor of shape 3, and used no parameter that requires grad: "
            "there is nothing to differentiate with respect to. Pass a floating-point tensor.",
        ),
        (
            (lambda: None,),
            "verify() called lambda with no tensor, and used no parameter that requires grad: there is nothing to "
            "differentiate with respect to. Pass a floating-point tensor.",
        ),
        (
            (nn.Identity(), normal(3)),
            "verify() called Identity, and nothing it ran has a backward: it returns its input unchanged, does not "
            "use it, detaches it, or computes under torch.no_grad().",
        ),
    ],
    ids=["integer output", "integers", "integer input", "no input", "identity"],
)
def test_nothing_to_verify(call: tuple[Any, ...], message: str) -> None:
    with pytest.raises(bs.NothingToVerify) as error:
        bs.verify(*call)
    assert str(error.value) == message


def test_what_is_no_function() -> None:
    with pytest.raises(TypeError, match=r"^verify\(\) expects a function or a module and its inputs, not Tensor\.$"):
        bs.verify(normal(3))


def test_a_parameter_of_the_name_of_an_option() -> None:
    def noisy(x: torch.Tensor, seed: int = 0) -> torch.Tensor:
        return x * seed

    assert bs.verify(noisy, normal(2)).ok
    with pytest.raises(TypeError, match=r"wrap the function, as in verify\(lambda x: f\(x, seed=\.\.\.\), x\)"):
        bs.verify(noisy, normal(2), seed=3)


def test_what_the_function_raises_is_raised_and_nothing_stays_behind() -> None:
    before = sys.getprofile()
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes"):
        bs.verify(lambda x: x @ x, normal(2, 3))
    assert sys.getprofile() is before
    assert torch.overrides._get_current_function_mode() is None
    with pytest.raises(ZeroDivisionError):
        bs.verify(lambda x: 1 / 0, normal(2))


# ---- what is changed or shared


def test_inputs_changed_in_place_are_copies() -> None:
    x = normal(3).requires_grad_()
    before = x.detach().clone()
    report = bs.verify(lambda x: x.mul_(2).sin_(), x)
    assert [each.name for each in report.checked] == ["mul_", "sin_"]
    assert torch.equal(x, before) and x.grad is None and x.is_leaf


def test_entries_assigned() -> None:
    def assign(x: torch.Tensor) -> torch.Tensor:
        x[0] = x[1] * 2
        return x

    report = bs.verify(assign, normal(3))
    assert report.ok and [each.name for each in report.checked] == ["getitem", "mul", "setitem"]


def test_outputs_that_are_views_of_inputs() -> None:
    assert bs.verify(lambda x: (x.view(-1), x[0], x.T), normal(3, 3)).ok


def test_tensors_that_the_function_only_closes_over_are_put_back() -> None:
    running = torch.zeros(4)

    def step(x: torch.Tensor) -> torch.Tensor:
        y = F.batch_norm(x, running, torch.ones(4), training=True)
        return y.sum()

    assert bs.verify(step, normal(5, 4)).ok
    assert torch.equal(running, torch.zeros(4))


def test_buffers_that_forward_replaces_are_put_back() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls = self.calls + 1
            return x.sin()

    model = Counting()
    calls = model.calls
    assert bs.verify(model, normal(3)).ok
    assert model.calls is calls and calls == 0
    assert bs.verify(lambda x: model(x), normal(3)).ok
    assert model.calls is calls and calls == 0


def test_gradients_that_are_there_stay() -> None:
    model = nn.Linear(3, 2)
    model(normal(4, 3)).sum().backward()
    held = {name: (each.grad, each.grad.clone()) for name, each in model.named_parameters()}
    assert bs.verify(model, normal(4, 3)).ok
    assert all(p.grad is held[name][0] and torch.equal(p.grad, held[name][1]) for name, p in model.named_parameters())


# ---- kinks and singular points


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (F.relu, torch.tensor([0.0, 0.0, 1.0, -1.0])),
        (torch.abs, torch.zeros(4)),
        (lambda x: x.amax(), torch.ones(5)),
        (lambda x: x.sort().values[1], torch.zeros(3)),
        (lambda x: F.max_pool1d(x, 2), torch.zeros(1, 1, 4)),
        (torch.sqrt, torch.tensor([0.0, 1.0])),
        (torch.norm, torch.zeros(3)),
        (lambda x: x.pow(0.5), torch.zeros(2)),
        (lambda x: x.clamp(0, 1), torch.tensor([0.0, 0.5, 1.0])),
        (lambda x: F.softmax(x.masked_fill(torch.tensor([True, False, False]), float("-inf")), -1), torch.zeros(3)),
        (lambda x: x / x.norm(dim=-1, keepdim=True), torch.zeros(2, 3)),
    ],
    ids=["relu", "abs", "amax", "sort", "pool", "sqrt", "norm", "pow", "clamp", "masked", "normalised"],
)
def test_right_operations_at_kinks_and_singular_points(function: Any, x: torch.Tensor) -> None:
    report = bs.verify(function, x)
    assert not report.findings


def test_a_wrong_one_is_found_at_its_kink() -> None:
    (finding,) = bs.verify(wrong.BadReLU, torch.tensor([0.0, 0.0, 1.0, -1.0])).findings
    assert finding.code == "BS401"
    assert finding.evidence[-1] == ("Tested at a nearby point: at these values, forward has a kink or is singular.")


def test_a_kink_is_tested_nearby_and_the_report_says_so() -> None:
    (tested,) = bs.verify(F.relu, torch.zeros(4)).checked
    assert tested.how == "at a point nearby, float64"


# ---- what cannot be called again


class Once(Function):
    calls = 0

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        Once.calls += 1
        if Once.calls > 1:
            raise RuntimeError("only once")
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        return grad_output * 2


def test_a_forward_that_raises_at_its_second_call() -> None:
    report = bs.verify(lambda x: Once.apply(x).sin(), normal(2))
    assert not report.findings and [each.name for each in report.checked] == ["sin"]
    assert str(report) == (
        "backsight: Once could not be tested; 1 operation tested, the backward is correct: sin\n"
        "not tested: Once (called a second time, it raises RuntimeError: only once)"
    )


class Unsteady(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * random.random()

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        return grad_output


def test_a_forward_that_no_seed_makes_repeatable() -> None:
    report = bs.verify(Unsteady, normal(2))
    assert not report.findings and not report.ok
    assert str(report) == (
        "backsight: nothing could be tested\n"
        "not tested: Unsteady (its forward gives other values when it is called again with the same input and seed)"
    )


def test_sparse_inputs_and_inputs_without_elements_are_skipped_with_the_reason() -> None:
    why = [each.why for each in bs.verify(torch.sin, torch.ones(0, 3)).skipped]
    assert why == ["its inputs hold no elements"]
    why = [each.why for each in bs.verify(lambda x: x.to_sparse().to_dense(), torch.eye(3)).skipped]
    assert why == ["an input is sparse_coo, which has no directions to perturb"]


def test_a_backward_that_raises_what_it_wants() -> None:
    class Broken(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
            raise KeyError("weights")

    (finding,) = bs.verify(Broken, normal(2)).findings
    assert (finding.code, finding.evidence) == ("BS414", ("KeyError: 'weights'",))


# ---- too much


def test_a_huge_tensor_is_tested_along_single_directions() -> None:
    report = bs.verify(lambda x: wrong.Square.apply(x).sum(), normal(500, 1000))
    (finding,) = report.findings
    assert finding.code == "BS404" and len(report.checked) == 2


def test_when_the_time_is_over_the_rest_is_skipped_and_functions_of_the_user_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = count()  # a second passes at each look at the clock, that is, at each call of an operation
    monkeypatch.setattr("backsight.verification.point.time", SimpleNamespace(monotonic=lambda: next(seconds)))

    def model(x: torch.Tensor) -> torch.Tensor:
        for _ in range(300):
            x = x.sin()
        return wrong.Square.apply(x)

    report = bs.verify(model, normal(2), seconds=1000)
    assert [each.code for each in report] == ["BS404"]
    assert {each.why for each in report.skipped} == {"verify ran out of its 1000 s; allow more with seconds="}
    assert 50 < len(report.checked) < 250
    assert len(report.checked) + len(report.skipped) == 301


def test_a_wrong_gradient_is_told_also_when_the_time_is_over_before_it_is_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def explained(case: Any) -> Any:
        raise OutOfTime("verify ran out of its 60 s; allow more with seconds=")

    monkeypatch.setattr("backsight.verification.check.certain", explained)
    (finding,) = bs.verify(wrong.Square, torch.ones(3)).findings
    assert (finding.code, finding.title) == ("BS400", "Square.backward returns a wrong gradient for `x`.")
    assert finding.evidence[0].endswith(
        "How it is wrong was not determined: verify ran out of its 60 s; allow more with seconds=."
    )


def test_two_hundred_layers() -> None:
    layers = [layer for _ in range(100) for layer in (nn.Linear(8, 8), nn.Tanh())]
    assert len(bs.verify(nn.Sequential(*layers), normal(2, 8)).checked) == 200


def test_a_bar_shows_progress_on_stderr_where_it_is_wanted(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backsight.verification.running.PATIENCE", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal then
    bs.verify(nn.Sequential(nn.Linear(3, 3), nn.Tanh()), normal(2, 3), progress=True)
    out, err = capfd.readouterr()
    assert out == "" and "verifying" in err and "tanh" in err
    bs.verify(nn.Sequential(nn.Linear(3, 3), nn.Tanh()), normal(2, 3))
    assert capfd.readouterr() == ("", "")


# ---- other tools at work


def test_under_a_profiler() -> None:
    """cProfile holds the place at which calls of Function.apply are noticed, and cannot be put back there by Python."""
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        held = sys.getprofile()
        report = bs.verify(lambda x: wrong.Square.apply(x).sin(), normal(3))
        assert sys.getprofile() is held
    finally:
        profiler.disable()
    assert not report.ok


def test_warnings_are_shown_once() -> None:
    def warn(x: torch.Tensor) -> torch.Tensor:
        warnings.warn("mind the gap", stacklevel=1)
        return x.sin()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert bs.verify(warn, normal(2)).ok
    assert [str(each.message) for each in caught] == ["mind the gap"]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
def test_where_gradients_are_off(mode: Any) -> None:
    with mode():
        assert bs.verify(torch.sin, normal(3)).ok


class Uncopyable(torch.Tensor):
    """A subclass that refuses to be cloned."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.clone:
            raise RuntimeError("not this one")
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_tensor_that_cannot_be_copied_is_told_and_stops_nothing() -> None:
    held = torch.ones(3).as_subclass(Uncopyable)
    report = bs.verify(lambda x: (x * held).sin().as_subclass(torch.Tensor).cos(), normal(3))
    assert not report.findings
    assert ("mul", "it could not be kept: RuntimeError: not this one") in [(e.name, e.why) for e in report.skipped]


def test_a_lazy_module() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
    report = bs.verify(model, normal(4, 2))
    assert report.ok and not report.skipped
    assert [each.name for each in report.checked] == ["linear", "batch_norm"]
