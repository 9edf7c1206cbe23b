"""BS416 where one term of a gradient lacks a factor: which one, and the statement with it."""

from typing import Any

import pytest
import torch

import backsight as bs


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
        s = torch.sigmoid(beta * x)
        ctx.save_for_backward(x, s, beta)
        return x * s

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, s, beta = ctx.saved_tensors
        grad_x = grad_output * (s + x * s * (1 - s))
        return grad_x, (grad_output * x * x * s * (1 - s)).sum() + 0 * beta


class Damped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        e = torch.exp(-(2 * x))
        ctx.save_for_backward(x, e)
        return x * e

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        x, e = ctx.saved_tensors
        slope = e - x * e
        return grad_output * slope


class Unnamed(torch.autograd.Function):
    """Its backward calls the factor otherwise."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
        s = torch.sigmoid(beta * x)
        ctx.save_for_backward(x, s, beta)
        return x * s

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, s, b = ctx.saved_tensors
        return g * (s + x * s * (1 - s)), (g * x * x * s * (1 - s)).sum() + 0 * b


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x * x * x * grad_output


class Tanh(torch.autograd.Function):
    """Its backward has no name for the output."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        return grad_output * 1


class SoftThreshold(torch.autograd.Function):
    """What it computes for one input is used for the other, whose gradient is right."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, lam)
        return torch.sign(x) * torch.clamp(x.abs() - lam, min=0)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, lam = ctx.saved_tensors
        mask = (x.abs() > lam).float()
        return g * mask, (-g * mask).sum()


class Named(torch.autograd.Function):
    """What it adds up is a name alone, which needs parentheses with a factor."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, lam: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.sign(x) * (x.abs() - lam)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        (x,) = ctx.saved_tensors
        back = -g
        return -back + 0 * x, back.sum()


def said(function: Any, *inputs: torch.Tensor) -> Any:
    (finding,) = bs.verify(function, *inputs).findings
    assert finding.code == "BS416"
    return finding


X = torch.linspace(-1.5, 2, 12).reshape(3, 4)


class TestTheTermThatLacksAFactor:
    @pytest.mark.parametrize(
        ("function", "inputs", "statement"),
        [
            (Swish, (X, torch.tensor(1.5)), "grad_x = grad_output * (s + beta * x * s * (1 - s))"),
            (Damped, (X,), "slope = e - 2 * x * e"),
        ],
    )
    def test_is_written_with_it(self, function: Any, inputs: tuple[torch.Tensor, ...], statement: str) -> None:
        fix = said(function, *inputs).fix
        assert f"write `{statement}`: only this term is missing the factor" in fix

    def test_the_title_says_the_derivative(self) -> None:
        assert "as if the derivative of the product in `s = torch.sigmoid(beta * x)` were 1, not `beta`." in (
            said(Swish, X, torch.tensor(1.5)).title
        )

    @pytest.mark.parametrize(
        ("function", "fix"),
        [
            (Tanh, "Multiply what it returns for `x` by (1 - output²): the chain rule."),
            (Cubed, "Leave that factor out: the chain rule."),
        ],
    )
    def test_where_no_statement_can_be_written_the_fix_says_what_to_do(self, function: Any, fix: str) -> None:
        assert said(function, X).fix == fix

    def test_where_the_source_does_not_show_it_the_fix_names_the_part(self) -> None:
        assert said(Unnamed, X, torch.tensor(1.5)).fix == (
            "Multiply what comes through the product in `s = torch.sigmoid(beta * x)` by `beta`, and no other term of "
            "the gradient: the chain rule."
        )

    def test_is_not_written_where_another_input_would_become_wrong(self) -> None:
        x = torch.linspace(-1.5, 2, 12)
        finding = said(SoftThreshold.apply, x, torch.tensor(0.3))
        assert finding.input == "lam"
        assert "write `return g * mask, (-g * mask * torch.sign(x)).sum()`: only this term" in finding.fix

    def test_has_parentheses_where_it_needs_them(self) -> None:
        finding = said(Named.apply, X, torch.tensor(0.3))
        assert finding.input == "lam"
        assert "write `return -back + 0 * x, (torch.sign(x) * back).sum()`: only this term" in finding.fix


class Gain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    def backward(ctx, grad_output):
        x, scale = ctx.saved_tensors  # noqa: RUF059  # which is what it lacks
        grad_scale = grad_output.sum()
        return grad_output * scale, grad_scale


class Gains(Gain):
    @staticmethod
    def backward(ctx, grad_output):
        x, scale = ctx.saved_tensors  # noqa: RUF059
        return grad_output * scale, grad_output.sum(0)


@pytest.mark.parametrize(
    ("function", "shape", "statement"),
    [
        (Gain, (), "grad_scale = (x * grad_output).sum()"),
        (Gains, (3,), "return grad_output * scale, (x * grad_output).sum(0)"),
    ],
)
def test_of_what_is_broadcast_it_is_missing_before_the_sum(function, shape, statement):
    finding = said(function.apply, torch.randn(5, 3), torch.full(shape, 1.7))
    assert (finding.code, finding.input) == ("BS416", "scale")
    assert "the derivative of the product in `return x * scale` were 1, not `x`." in finding.title
    assert f"write `{statement}`: only this term is missing the factor `x`." in finding.fix
