"""A mistake in one step of a forward is found, and told by that step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import Function
from torch.nn import functional as F

import backsight as bs


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def made(forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """Return a Function; backward gets grad_output and the inputs."""

    def run(ctx: Any, x: torch.Tensor, *more: Any) -> Any:
        ctx.given = (x, *more)
        return forward(x, *more)

    def pull(ctx: Any, grad_output: torch.Tensor) -> Any:
        found = backward(grad_output, *ctx.given)
        return found if isinstance(found, tuple) else (found, *(None for _ in ctx.given[1:]))

    return type("Made", (Function,), {"forward": staticmethod(run), "backward": staticmethod(pull)})


def deviation(x: torch.Tensor) -> torch.Tensor:
    return (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()


def standardized(x: torch.Tensor) -> torch.Tensor:
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / deviation(x)


def over_rows(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    y = x.softmax(-1)
    return y * (g - (g * y).sum(0, keepdim=True))


def indexed(g: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    gradient = torch.zeros_like(x)
    gradient[at] = g
    return gradient


def convolved(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(k), n=8)


def rotated(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([a * math.cos(0.3) - b * math.sin(0.3), a * math.sin(0.3) + b * math.cos(0.3)], -1)


def decayed(x: torch.Tensor) -> torch.Tensor:
    h, states = torch.zeros_like(x[0]), []
    for row in x:
        h = 0.6 * h + row
        states.append(h)
    return torch.stack(states)


def gelu_slope(g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    t = torch.tanh(0.8 * (x + 0.04 * x**3))
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t))


def carried(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    h = torch.zeros_like(x[0])
    for row in x:
        h = torch.tanh(row + w * h)
    return h


def last_step(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
    before, h = carried(x[:-1], w), carried(x, w)
    of_x = torch.zeros_like(x)
    of_x[-1] = g * (1 - h * h)
    return of_x, g * (1 - h * h) * before


MATRIX = normal(5, 5)
KERNEL = torch.tensor([[[1.0, -2.0, 0.5]]])
AT = torch.tensor([0, 2, 2, 4, 2, 0])
x = normal(4, 6)

CASES = [
    ("BS415", standardized, lambda g, x: g / deviation(x), (x,), "as if mean in"),
    ("BS415", standardized, lambda g, x: (g - g.mean(-1, keepdim=True)) / deviation(x), (x,), "as if sqrt in"),
    (
        "BS415",
        lambda x: x / x.norm(dim=1, keepdim=True),
        lambda g, x: g / x.norm(dim=1, keepdim=True),
        (x,),
        "norm",
    ),
    (
        "BS415",
        lambda x: x * x.sigmoid(),
        lambda g, x: g * x.sigmoid(),
        (x,),
        "as if sigmoid in `lambda x: x * x.sigmoid()` were a constant",
    ),
    (
        "BS416",
        lambda x: x * x.sigmoid(),
        lambda g, x: g * (x.sigmoid() + x * x.sigmoid()),
        (x,),
        "with the result of sigmoid in `lambda x: x * x.sigmoid()` in place of its derivative",
    ),
    (
        "BS416",
        lambda x, gate: x * gate.tanh(),
        lambda g, x, gate: (g * gate.tanh(), g * x * gate.tanh()),
        (x, normal(4, 6, seed=1).requires_grad_()),
        "with the result of tanh in `lambda x, gate: x * gate.tanh()` in place of its derivative",
    ),
    ("BS416", torch.tanh, lambda g, x: g * (1 - x * x), (x,), "with the input of tanh"),
    ("BS416", torch.sigmoid, lambda g, x: g * x * (1 - x), (x,), "with the input of sigmoid"),
    (
        "BS406",
        lambda x: x.softmax(-1),
        over_rows,
        (x,),
        "with a sum over the wrong dimension",
    ),
    (
        "BS406",
        lambda x, at: x[at],
        indexed,
        (normal(5, 3), AT),
        "without the sum over repeated indices",
    ),
    (
        "BS405",
        lambda x: F.conv1d(x, KERNEL.to(x)),
        lambda g, x: F.conv1d(F.pad(g, (2, 2)), KERNEL.to(x)),
        (normal(2, 1, 9),),
        "with the kernel of conv1d",
    ),
    (
        "BS405",
        convolved,
        lambda g, x, k: convolved(g, k),
        (normal(8).requires_grad_(), normal(8, seed=3)),
        "without a conjugate in the derivative of the product",
    ),
    (
        "BS405",
        lambda x: x.cumsum(0),
        lambda g, x: g.cumsum(0),
        (x,),
        "with the derivative of cumsum in",
    ),
    ("BS405", rotated, lambda g, x: rotated(g), (x,), "with the derivative of forward where its transpose belongs"),
    (
        "BS405",
        lambda x: F.pixel_shuffle(x, 2),
        lambda g, x: g.reshape(x.shape),
        (normal(2, 4, 3, 3),),
        "with a reshape where pixel_shuffle",
    ),
    (
        "BS416",
        decayed,
        lambda g, x: g.flip(0).cumsum(0).flip(0),
        (x,),
        "as if the derivative of the product",
    ),
    (
        "BS416",
        lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * x**3))),
        gelu_slope,
        (x,),
        "as if the derivative of everything up to",
    ),
    (
        "BS416",
        lambda x, w: x.clamp(-0.5, 0.5) * w,
        lambda g, x, w: (g * w * (x.abs() < 0.5), g * x),
        (normal(9), normal(9, seed=2)),
        "as if forward ran without clamp",
    ),
    (
        "BS416",
        lambda x: F.leaky_relu(x, 0.1),
        lambda g, x: g * torch.where(x > 0, 0.1, 1.0),
        (x,),
        "with the sides of leaky_relu",
    ),
    ("BS416", lambda x: x * x - x.exp().log1p(), lambda g, x: g * (2 * x - x.sigmoid() / x.exp()), (x,), "exp"),
    (
        "BS403",
        lambda x: x.sin() + x.cos(),
        lambda g, x: g * (x.cos() + x.sin()),
        (x,),
        "with the wrong sign in",
    ),
    (
        "BS416",
        lambda x, t: (x - (0.8 * t + 0.1)).square(),
        lambda g, x, t: 2 * g * (x - t),
        (x.clone().requires_grad_(), normal(4, 6, seed=4)),
        "as if forward had `more[0]` in place of the result of the sum",
    ),
    (
        "BS415",
        lambda x: x @ MATRIX.to(x) @ x,
        lambda g, x: 2 * g * (MATRIX.to(x) @ x),
        (normal(5),),
        "with the paths through the second matrix product",
    ),
    (
        "BS408",
        lambda x, a: torch.where(x < 0, a * x, x),
        lambda g, x, a: (torch.where(x < 0, a * g, g), (g * x * (x >= 0)).sum().reshape(1)),
        (x, torch.tensor([0.3])),
        "with the condition of where",
    ),
    (
        "BS416",
        lambda x: torch.view_as_real(torch.fft.rfft(x)),
        lambda g, x: 6 * torch.fft.irfft(torch.view_as_complex(g), n=6),
        (x,),
        "as if the spectrum of fft_rfft",
    ),
    ("BS415", carried, last_step, (normal(4, 3), normal(3)), "as if the second operand of the product in"),
    ("BS405", lambda x: F.pad(x, (1, 0)), lambda g, x: g[:, :-1], (x,), "shifted by one along dimension 1"),
    ("BS404", lambda x: x.sin() + x**2, lambda g, x: g * (x.cos() + 0.6 * x), (x,), "were 3/10 times what it is"),
]


@pytest.mark.parametrize(("code", "forward", "backward", "inputs", "title"), CASES, ids=[row[4] for row in CASES])
def test_a_mistake_in_one_step_is_told(code: str, forward: Any, backward: Any, inputs: Any, title: str) -> None:
    findings = bs.verify(made(forward, backward), *inputs).findings
    assert {each.code for each in findings} == {code}
    assert title in findings[0].title


@pytest.mark.parametrize(
    ("forward", "backward", "inputs", "told"),
    [
        (lambda x: x.sin() / 3.7, lambda g, x: g * x.cos(), (x,), "That is the divisor of the quotient"),
        (lambda x: 3.7 * x.sin(), lambda g, x: g * x.cos(), (x,), "That is one over the number in the product"),
        (
            lambda x, s: x * s * s,
            lambda g, x, s: (g, 2 * s * (g * x).sum()),
            (x, torch.tensor(1.7)),
            "That is one over the square of `s`, which is 1.7.",
        ),
        (
            lambda x, s: (s.exp() * x).sin(),
            lambda g, x, s: (g * s.exp() * (s.exp() * x).cos(), (g * x * (s.exp() * x).cos()).sum()),
            (x.clone().requires_grad_(), torch.tensor(1.2, requires_grad=True)),
            "0.301194 is one over exp(`s`), and one over the result of exp ",
        ),
        (
            lambda x, s: x.sin() * (s + 1).log1p(),
            lambda g, x, s: (g * x.cos(), None),
            (x.clone().requires_grad_(), torch.tensor(1.2)),
            "That is one over the result of log1p ",
        ),
    ],
)
def test_where_a_factor_comes_from(forward: Any, backward: Any, inputs: Any, told: str) -> None:
    class Scaled(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, s: torch.Tensor | None = None) -> Any:
            ctx.given = (x,) if s is None else (x, s)
            return forward(*ctx.given)

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> Any:
            found = backward(grad_output, *ctx.given)
            return found if isinstance(found, tuple) else (found, None)[: len(ctx.needs_input_grad)]

    (finding,) = bs.verify(Scaled, *inputs).findings
    assert finding.code == "BS404"
    assert any(str(each).startswith(told) for each in finding.evidence)


def test_an_argument_of_one_entry_is_named_as_a_factor() -> None:
    class Width(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, width: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, width)
            return (x * x / width).exp()

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> Any:
            x, width = ctx.saved_tensors
            y = (x * x / width).exp()
            return grad_output * y * 2 * x / width, -(grad_output * y * x * x).sum() / width

    (finding,) = bs.verify(Width, normal(3).double(), torch.tensor(1.7)).findings
    assert (finding.code, finding.title) == (
        "BS416",
        "Width.backward has an extra factor `width` in the gradient of `width`.",
    )


def test_a_path_that_is_left_out_through_one_of_several_outputs_is_no_mask() -> None:
    class Cell(Function):
        @staticmethod
        def forward(ctx: Any, c: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            i, o = z.chunk(2, -1)
            ctx.save_for_backward(c, i, o)
            new = c + i.sigmoid()
            return o.sigmoid() * new.tanh(), new

        @staticmethod
        def backward(ctx: Any, of_h: torch.Tensor, of_c: torch.Tensor) -> Any:
            c, i, o = ctx.saved_tensors
            new, i, o = c + i.sigmoid(), i.sigmoid(), o.sigmoid()
            of_c = of_c + of_h * o * (1 - new.tanh() ** 2)
            skipped = of_c - of_h * o * (1 - new.tanh() ** 2)
            return of_c, torch.cat([skipped * i * (1 - i), of_h * new.tanh() * o * (1 - o)], -1)

    (finding,) = bs.verify(Cell, normal(3, 4), normal(3, 8)).findings
    assert finding.code == "BS415"
    assert "as if tanh in `return o.sigmoid() * new.tanh(), new` were a constant" in finding.title


def test_a_line_is_quoted_once_and_its_result_called_by_name() -> None:
    def unit(x: torch.Tensor) -> torch.Tensor:
        n = x.norm(dim=1, keepdim=True)
        return x / n

    (finding,) = bs.verify(made(unit, lambda g, x: g / x.norm(dim=1, keepdim=True)), x).findings
    assert finding.title.endswith("as if norm in `n = x.norm(dim=1, keepdim=True)` were a constant.")
    assert str(finding.evidence[0]) == "But `n` changes with `x`, and the output with it."
    assert finding.fix == "Add the gradient that comes through `n`."


def test_what_no_step_explains_is_not_explained() -> None:
    wrong = made(lambda x: x.sin() * x.cos(), lambda g, x: g * (x.cosh() - 0.3 * x**3))
    assert [each.code for each in bs.verify(wrong, x).findings] == ["BS400"]


def test_a_forward_that_detaches_is_not_searched() -> None:
    wrong = made(lambda x: x.detach().numpy().sum() * x.sin(), lambda g, x: g * x.cosh())
    assert [each.code for each in bs.verify(wrong, x).findings] == ["BS400"]


def test_the_same_mistakes_are_told_of_gradients_by_hand() -> None:
    torch.manual_seed(0)
    layer, g = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.SiLU()), normal(4, 5)
    h = layer[0](x).detach()
    by_hand = (g * h.sigmoid()) @ layer[0].weight.detach()
    with pytest.raises(AssertionError, match=r"as if the sigmoid inside silu\s+were a constant"):
        bs.testing.assert_manual_backward(layer, x, g, input_grad=by_hand)
