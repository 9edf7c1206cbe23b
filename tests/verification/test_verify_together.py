"""One mistake is one finding, whichever inputs it reaches; and where a Function was called."""

from __future__ import annotations

from typing import Any

import torch
from test_verify_steps import made, normal
from torch.autograd import Function

import backsight as bs


class Bilinear(Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        return (a * b).sum(-1)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> Any:
        a, b = ctx.saved_tensors
        return 3 * grad_output[:, None] * b, 3 * grad_output[:, None] * a


class Cell(Function):
    """No gradient goes from a step of the loop to the one before."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        h, states = torch.zeros_like(x[0]), []
        for row in x:
            states.append(h)
            h = torch.tanh(row + h @ w)
        ctx.save_for_backward(x, w, torch.stack([*states, h]))
        return h

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> Any:
        x, _, states = ctx.saved_tensors
        d = grad_output * (1 - states[-1] ** 2)
        return torch.cat([torch.zeros_like(x[:-1]), d[None]]), states[-2].mT @ d


def test_a_mistake_in_the_gradients_of_two_inputs_is_one_finding() -> None:
    (finding,) = bs.verify(Bilinear, normal(4, 3), normal(4, 3, seed=1)).findings
    assert finding.title == "Bilinear.backward returns three times the right gradient for `a` and `b`."
    assert finding.evidence[-1] == "It is the same for `b`."
    assert (finding.input, finding.fix) == ("a, b", "On line 23, remove `3 *` from the gradient of `a` and `b`.")


def test_one_step_that_explains_the_gradients_of_two_inputs_is_told_once() -> None:
    (finding,) = bs.verify(Cell, normal(4, 2, 3), normal(3, 3)).findings
    assert finding.input == "x, w"
    assert "as if the first operand of the matrix product in `h = torch.tanh(row + h @ w)` were a constant" in (
        finding.title
    )


def test_what_is_known_of_one_input_alone_is_said_of_that_input() -> None:
    """The same eps is moved, in the value and, for the other input, in a derivative in terms of the output as well."""

    def backward(g: torch.Tensor, a: torch.Tensor, s: torch.Tensor) -> Any:
        root = s.sqrt() + 0.01
        return g / root, -0.5 * g * a / root**3

    wrong = made(lambda a, s: a / torch.sqrt(s + 0.01), backward)
    (finding,) = bs.verify(wrong, normal(6), normal(6, seed=1).square() + 0.05).findings
    assert "`x` and `more[0]` as if forward added 0.01 after sqrt, and not before it" in finding.title
    assert finding.evidence[0].startswith("It is the right gradient of that forward")
    assert finding.evidence[1].startswith("For `more[0]`: With that value of sqrt")


def test_two_mistakes_are_two_findings() -> None:
    two = made(lambda a, b: a.sin() * b.exp(), lambda g, a, b: (g * b.exp(), 3 * g * a.sin() * b.exp()))
    findings = bs.verify(two, normal(4), normal(4, seed=1)).findings
    assert sorted(each.code for each in findings) == ["BS404", "BS416"]


def test_each_input_that_gets_no_gradient_has_a_finding_of_its_own() -> None:
    none = made(lambda a, b: a * b, lambda g, a, b: (None, None))
    assert [each.code for each in bs.verify(none, normal(4), normal(4, seed=1)).findings] == ["BS409", "BS409"]


Wrong = made(lambda x: x.sin(), lambda g, x: g * x.exp())

CALLS = [
    lambda x: x.exp(),
    lambda x: Wrong.apply(x),
    lambda x: Wrong.apply(x + 1),
]


def test_a_call_in_a_lambda_of_a_list_is_shown_by_the_line_of_the_lambda() -> None:
    (place,) = bs.verify(CALLS[1], normal(4)).findings[0].calls
    assert place.text == "lambda x: Wrong.apply(x)"
    assert place.line == CALLS[1].__code__.co_firstlineno
    (place,) = bs.verify(CALLS[2], normal(4)).findings[0].calls
    assert place.text == "lambda x: Wrong.apply(x + 1)"


def test_a_call_in_a_statement_over_several_lines_is_shown_by_its_own_line() -> None:
    def loss(x: torch.Tensor) -> Any:
        return sum(
            (
                x.exp().sum(),
                Wrong.apply(x).sum(),
            )
        )

    (place,) = bs.verify(loss, normal(4)).findings[0].calls
    assert place.line == loss.__code__.co_firstlineno + 4
    assert place.text.startswith("Wrong.apply(x)")


def test_gradients_in_the_wrong_order_are_one_finding_on_whichever_lines_they_are_made() -> None:
    class Film(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, gamma)
            return x * gamma[:, None] + beta[:, None]

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> Any:
            x, gamma = ctx.saved_tensors
            of_x = g * gamma[:, None]
            of_beta = g.sum(1)
            of_gamma = (g * x).sum(1)
            return of_x, of_beta, of_gamma

    inputs = [torch.randn(*shape).requires_grad_() for shape in ((2, 4, 3), (2, 3), (2, 3))]
    (finding,) = bs.verify(Film, *inputs).findings
    assert (finding.code, finding.input) == ("BS407", "gamma, beta")


def test_two_steps_change_and_one_changes() -> None:
    def padded(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[-1:], x, x[:1]]).sin()

    wrong = made(padded, lambda g, x: (g * torch.cat([x[-1:], x, x[:1]]).cos())[1:-1])
    (finding,) = bs.verify(wrong, 0.3 * torch.rand(5)).findings
    assert " change with `x`, and the output with them." in finding.evidence[0]
