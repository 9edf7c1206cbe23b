"""What runs inside of transforms and checkpoints is tested; what cannot be is never called right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import Function
from torch.func import functional_call, grad, jacrev, vjp, vmap
from torch.utils.checkpoint import checkpoint

import backsight as bs


class Sine(Function):
    """A function of one tensor whose backward is 1.3 times too large; written for transforms."""

    factor = 1.3

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @classmethod
    def backward(cls, ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        return grad_output * ctx.saved_tensors[0].cos() * cls.factor


class Generated(Sine):
    generate_vmap_rule = True


class Right(Generated):
    factor = 1.0


class Ruled(Sine):
    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        return Ruled.apply(x), in_dims[0]


class WrongRule(Right):
    """Right by itself; its rule for vmap computes something else."""

    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        return x.detach().sin() + 0.5 * x - 0.5 * x.detach(), in_dims[0]


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Generated.apply(self.linear(x))


LAYER = Layer()
WEIGHTS = dict(LAYER.named_parameters())

SEEN: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "vmap": lambda f, x: vmap(f.apply)(x).exp(),
    "vmap of nothing else": lambda f, x: vmap(f.apply)(x),
    "vmap along the second dimension": lambda f, x: vmap(f.apply, in_dims=1, out_dims=1)(x).exp(),
    "vmap of vmap": lambda f, x: vmap(vmap(lambda y: f.apply(y)))(x).exp(),
    "vmap in chunks": lambda f, x: vmap(f.apply, chunk_size=2)(x).exp(),
    "grad": lambda f, x: grad(lambda y: f.apply(y).sum())(x).exp(),
    "grad of each sample": lambda f, x: vmap(grad(lambda y: f.apply(y).sum()))(x).exp(),
    "vjp": lambda f, x: vjp(f.apply, x)[1](torch.ones_like(x))[0].exp(),
    "jacrev": lambda f, x: jacrev(f.apply)(x).exp(),
    "grad of what requires none": lambda f, x: grad(lambda y: f.apply(y).sum())(torch.ones(4, 3)) * x,
    "reentrant checkpoint": lambda f, x: checkpoint(f.apply, x, use_reentrant=True).exp(),
    "checkpoint in a checkpoint": lambda f, x: checkpoint(
        lambda y: checkpoint(lambda z: f.apply(z.cos()), y, use_reentrant=True).tanh(), x, use_reentrant=True
    ),
}


@pytest.mark.parametrize("function", [Generated, Ruled])
@pytest.mark.parametrize("name", SEEN)
def test_a_wrong_function_is_found_wherever_it_runs(name: str, function: Any) -> None:
    report = bs.verify(lambda x: SEEN[name](function, x), torch.randn(4, 3))
    assert not report.ok
    assert {(each.code, each.operation) for each in report} == {("BS404", function.__name__)}


@pytest.mark.parametrize("name", SEEN)
def test_a_right_function_is_right_there(name: str) -> None:
    report = bs.verify(lambda x: SEEN[name](Right, x), torch.randn(4, 3))
    assert report.ok, str(report)
    assert "Right" in {each.name for each in report.checked}


def test_a_wrong_function_is_found_in_a_functional_call() -> None:
    x = torch.randn(4, 3)
    for function in (
        lambda x: functional_call(LAYER, WEIGHTS, (x,)),
        lambda x: vmap(lambda row: functional_call(LAYER, WEIGHTS, (row,)))(x),
        lambda x: grad(lambda w: functional_call(LAYER, w, (x,)).sum())(WEIGHTS)["linear.weight"].exp() * x.sum(),
    ):
        assert {each.operation for each in bs.verify(function, x)} == {"Generated"}


def test_a_wrong_rule_for_vmap_is_not_right_though_the_function_is() -> None:
    assert bs.verify(WrongRule, torch.randn(4, 3)).ok
    report = bs.verify(lambda x: vmap(WrongRule.apply)(x).exp(), torch.randn(4, 3))
    assert not report.ok
    assert [each.name for each in report.unproven] == ["lambda as a whole"]
    assert "something in it is detached" in report.unproven[0].why


def test_what_is_the_programs_own_and_cannot_be_tested_is_not_right() -> None:
    class Twice(Function):
        calls = 0

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            Twice.calls += 1
            if Twice.calls > 1:
                raise RuntimeError("once only")
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
            return grad_output * 2

    report = bs.verify(lambda x: Twice.apply(x).exp(), torch.randn(3))
    assert [each.name for each in report.unproven] == ["Twice"]
    assert not report.ok and not report.findings
    with pytest.raises(AssertionError, match="Twice could not be tested"):
        Twice.calls = 0
        bs.testing.assert_gradients_right(lambda x: Twice.apply(x).exp(), torch.randn(3))


def test_pytorchs_own_that_cannot_be_tested_stays_out_of_account() -> None:
    report = bs.verify(lambda x: torch.normal(x, 1.0) + x.exp(), torch.randn(3))
    assert report.skipped and not report.unproven and report.ok


def test_a_checkpoint_that_cannot_run_again_is_not_right() -> None:
    calls = []

    def once(x: torch.Tensor) -> torch.Tensor:
        calls.append(x)
        if len(calls) > 1:
            raise RuntimeError("once only")
        return x.sin()

    report = bs.verify(lambda x: checkpoint(once, x, use_reentrant=True).exp(), torch.randn(3))
    assert [each.name for each in report.checked] == ["exp"] and not report.ok
    assert report.skipped[0].why == "rerun, it raises RuntimeError: once only"
