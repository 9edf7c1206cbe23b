"""Functions of all kinds with a right backward: nothing may be said of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd import Function

import backsight as bs


class InPlace(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        return grad_output * 3


class Identity(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        return grad_output


class Sorted(Function):
    """One of the outputs carries no gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, index = x.sort()
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        return values, index

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor, _: Any) -> torch.Tensor:
        (index,) = ctx.saved_tensors
        return torch.zeros_like(grad_output).scatter(-1, index, grad_output)


class Unmaterialised(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, a: torch.Tensor | None, b: torch.Tensor | None) -> torch.Tensor | None:
        parts = [g * k for g, k in ((a, 2), (b, 3)) if g is not None]
        return sum(parts) if parts else None  # type: ignore[return-value]


class OnlyWhatIsNeeded(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, scale: float, name: str | None) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.scale = scale
        return x @ weight.T * scale

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        grad_output = grad_output * ctx.scale
        of_x = grad_output @ weight if ctx.needs_input_grad[0] else None
        of_weight = grad_output.T @ x if ctx.needs_input_grad[1] else None
        return of_x, of_weight, None, None


class Broadcast(Function):
    """A gradient of the shape of the output, which autograd itself sums."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return x + bias

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return grad_output, grad_output


class OfItsOutput(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = x.softmax(-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        return y * (grad_output - (grad_output * y).sum(-1, keepdim=True))


class WithSetup(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor, power: int) -> torch.Tensor:
        return x**power

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.power = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad_output * ctx.power * x ** (ctx.power - 1), None

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: Any) -> torch.Tensor:
        return tangent


class Outer(Function):
    """Calls another Function, and differentiates inside."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.y = WithSetup.apply(ctx.x, 3).sin()
        return ctx.y.detach()

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(ctx.y, ctx.x, grad_output, retain_graph=True)[0]


class Dropout(Function):
    """The mask is drawn in forward and kept."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mask = (torch.rand_like(x) > 0.5).to(x.dtype) * 2
        return x * ctx.mask

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        return grad_output * ctx.mask


class Complex(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, w = ctx.saved_tensors
        return grad_output * w.conj(), (grad_output * x.conj()).real


class Unused(Function):
    """An input on which nothing depends: None is right."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, spare: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad_output, None


class Tiny(Function):
    """A gradient far smaller than the output, and exact."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return 1 + 1e-6 * x

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        return grad_output * 1e-6


class Steep(Function):
    """A gradient far larger than the output."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return (1e4 * x).sin()

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad_output * 1e4 * (1e4 * x).cos()


class ThroughSingle(Function):
    """Forward and backward both compute in single precision."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.float().sin().to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return (grad_output.float() * x.float().cos()).to(x.dtype)


class Through16(Function):
    """A cast to half precision and back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.half().to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        return grad_output


class Frees(Function):
    """What forward kept is let go in backward: a second backward through the same graph raises."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.kept = x.cos()
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        gradient = grad_output * ctx.kept
        del ctx.kept
        return gradient


class Root(Function):
    """A derivative that is infinite at 0, and no value below."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = x.sqrt()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        return grad_output / (2 * y)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(1))


x, y = normal(4, 4), normal(4, 4) + 2
RIGHT: list[tuple[Any, ...]] = [
    (InPlace, x),
    (Identity, x),
    (Sorted, x),
    (Unmaterialised, x),
    (OnlyWhatIsNeeded, x, y, 2.0, None),
    (OnlyWhatIsNeeded, x, y.clone().requires_grad_(), 2.0, "name"),
    (Broadcast, x, normal(4)),
    (OfItsOutput, x),
    (WithSetup, x, 3),
    (Outer, x),
    (Dropout, x),
    (Complex, normal(3, dtype=torch.complex64), normal(3)),
    (Unused, x, y),
    (Tiny, x),
    (Steep, x),
    (ThroughSingle, x),
    (Through16, x),
    (Frees, x),
    (Root, torch.tensor([0.0, 1.0, 2.0])),
]


@pytest.mark.parametrize("call", RIGHT, ids=[each[0].__name__ for each in RIGHT])
@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_said_of_a_right_function(call: tuple[Any, ...], seed: int) -> None:
    report = bs.verify(*call, seed=seed)
    assert not report.findings, str(report)


def test_all_but_those_whose_forward_is_too_coarse_are_judged() -> None:
    unjudged = {each[0].__name__ for each in RIGHT if not bs.verify(*each).ok}
    assert unjudged <= {"Through16"}


def test_a_single_input_that_requires_a_gradient_is_the_only_one_tested() -> None:
    weight = y.clone().requires_grad_()
    report = bs.verify(OnlyWhatIsNeeded, x, weight, 2.0, None)
    assert report.ok and weight.grad is None
