"""`verify`: which operation's backward is wrong, where it stands and how it is wrong, in a teacher's words."""

from __future__ import annotations

import re
from typing import Any

import misbehaving
import pytest
import torch
import wrong
from torch import nn
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

import backsight as bs
from backsight.text.console import printed


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(0))


def said(report: bs.Verification) -> str:
    """The report without the lines that say where: those hold numbers of lines of this file."""
    roles = ("  called ", "  forward ", "  backward ")
    return "\n".join(line for line in str(report).split("\n") if not line.startswith(roles))


# ---- the two functions of the tutorial


def test_the_polynomial_without_brackets() -> None:
    assert said(bs.verify(wrong.Poly, normal(6, 6))) == (
        "backsight: 1 of 1 operation has a wrong backward: Poly\n"
        "\n"
        "error BS402  Poly.backward adds 2 without multiplying it by grad_output.\n"
        "  For a grad_output of zeros it returns 2 in every entry for `input`; it must return 0: without an incoming\n"
        "  gradient there is no outgoing gradient.\n"
        "  grad_output * a + b is not grad_output * (a + b): with 2 inside the parentheses every entry is right. A "
        "test\n"
        "  with loss = out.sum() cannot see this, because grad_output is 1 there.\n"
        "  fix: Put the sum in parentheses: `grad_output * (6 * input + 2)`."
    )


def test_the_relu_that_writes_ones() -> None:
    assert said(bs.verify(wrong.BadReLU, normal(6, 6))) == (
        "backsight: 1 of 1 operation has a wrong backward: BadReLU\n"
        "\n"
        "error BS401  BadReLU.backward ignores grad_output.\n"
        "  20 of 36 entries of the gradient that it returns for `input` stay the same, whatever grad_output is (the\n"
        "  first stays 1).\n"
        "  By the chain rule each entry is grad_output times the derivative of forward, d loss/d input = d loss/d\n"
        "  output · d output/d input; the first factor is missing.\n"
        "  Multiplied by grad_output, they would be right. A test with loss = out.sum() cannot see this, because\n"
        "  grad_output is 1 there.\n"
        "  fix: Write `grad_input[input >= 0] = grad_output[input >= 0]` instead of `grad_input[input >= 0] = 1`."
    )


def test_both_pass_the_test_with_a_sum() -> None:
    """Why nobody sees them."""
    x = normal(6, 6, dtype=torch.float64).requires_grad_()
    (gradient,) = torch.autograd.grad(wrong.Poly.apply(x).sum(), x)
    torch.testing.assert_close(gradient, 6 * x + 2)
    (gradient,) = torch.autograd.grad(wrong.BadReLU.apply(x).sum(), x)
    torch.testing.assert_close(gradient, (x > 0).double())


def test_the_fixes_are_right() -> None:
    class Poly(wrong.Poly):
        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
            (input,) = ctx.saved_tensors
            return grad_output * (6 * input + 2)

    class ReLU(wrong.BadReLU):
        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
            (input,) = ctx.saved_tensors
            grad_input = grad_output.clone()
            grad_input[input < 0] = 0
            grad_input[input >= 0] = grad_output[input >= 0]
            return grad_input

    report = bs.verify(lambda x: ReLU.apply(Poly.apply(x)), normal(6, 6))
    assert str(report) == "backsight: 2 operations tested, every backward is correct: Poly, ReLU"


# ---- where


def test_a_finding_says_where_the_operation_is_called_and_written() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        h = x.sin()
        return wrong.Difference.apply(h, x * 2)

    (finding,) = bs.verify(model, normal(3)).findings
    assert (finding.operation, finding.input) == ("Difference", "b")
    assert [place.text for place in finding.calls] == ["return wrong.Difference.apply(h, x * 2)"]
    assert finding.calls[0].file == __file__
    assert finding.forward.text == "def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:"
    assert finding.backward.text == "return grad_output, grad_output"
    assert finding.backward.file == wrong.__file__
    assert str(finding.backward) == finding.source


def test_one_function_called_at_many_lines_is_one_finding() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        x = wrong.Square.apply(x)
        x = wrong.Square.apply(x)
        for _ in range(3):
            x = wrong.Square.apply(x)
        return x

    report = bs.verify(model, normal(3))
    assert len(report.checked) == len(report.wrong) == 5
    (finding,) = report.findings
    assert len(finding.calls) == 3


def test_twenty_operations_nine_of_them_wrong() -> None:
    torch.manual_seed(0)
    first, norm, second = nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 6)

    def composite(x: torch.Tensor) -> torch.Tensor:
        h = wrong.BadReLU.apply(first(x))
        h = norm(h)
        h = h + wrong.Poly.apply(second(h))
        h = wrong.Product.apply(h, h.T)
        h = wrong.Difference.apply(h.sin(), h.cos())
        h = wrong.Softmax.apply(h)
        h = wrong.Square.apply(h)
        h = torch.relu(h)
        h = wrong.Nothing.apply(h, h * 2)
        h = misbehaving.Mutating.apply(h)
        h = misbehaving.Noisy.apply(h)
        return h.tanh().sum()

    report = bs.verify(composite, normal(6, 6))
    assert len(report.checked) == 20
    assert not report.skipped
    assert {each.operation: each.code for each in report} == {
        "BadReLU": "BS401",
        "Poly": "BS402",
        "Product": "BS405",
        "Difference": "BS403",
        "Softmax": "BS415",
        "Square": "BS404",
        "Nothing": "BS409",
        "Mutating": "BS410",
        "Noisy": "BS411",
    }
    assert {each.name for each in report.wrong} == {each.operation for each in report}


def test_a_function_without_source_is_told_by_its_name() -> None:
    made: dict[str, Any] = {"torch": torch}
    exec(
        "class Twice(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x): return x * 2\n"
        "    @staticmethod\n"
        "    def backward(ctx, g): return g + 1\n",
        made,
    )
    (finding,) = bs.verify(made["Twice"], normal(3)).findings
    assert (finding.code, finding.operation, finding.input) == ("BS402", "Twice", "x")
    assert (finding.forward, finding.backward) == (None, None)
    assert finding.calls[0].file == __file__


# ---- what it takes


def test_a_module_with_state_dropout_and_an_operation_in_place() -> None:
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(0.3), nn.Flatten()
    model = nn.Sequential(*layers, nn.Linear(144, 5))
    before = {name: each.clone() for name, each in model.state_dict().items()}
    report = bs.verify(model, normal(2, 3, 8, 8))
    assert report.ok and [each.name for each in report.checked] == [
        "conv2d",
        "batch_norm",
        "relu",
        "dropout",
        "flatten",
        "linear",
    ]
    after = model.state_dict()
    assert all(torch.equal(after[name], each) for name, each in before.items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_any_precision_is_tested_in_double(dtype: torch.dtype) -> None:
    report = bs.verify(nn.Linear(4, 3).to(dtype), normal(2, 4, dtype=torch.float32).to(dtype))
    assert [each.how for each in report.checked] == ["float64"]
    (finding,) = bs.verify(wrong.Square, normal(4).to(dtype)).findings
    assert finding.title == "Square.backward returns half the right gradient for `x`."


class OnlyIn(Function):
    """Takes one type and no wider one."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, sign: float) -> torch.Tensor:
        if x.dtype is torch.float64:
            raise TypeError("no kernel for float64")
        ctx.save_for_backward(x)
        ctx.sign = sign
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad_output * x.cos() * ctx.sign, None


@pytest.mark.parametrize(
    ("dtype", "how"), [(torch.float32, "to about 2e-05"), (torch.bfloat16, "to about 4e-02")], ids=["float32", "bf16"]
)
def test_what_takes_no_double_is_tested_as_closely_as_it_allows_and_says_so(dtype: torch.dtype, how: str) -> None:
    x = normal(20).to(dtype)
    report = bs.verify(OnlyIn.apply, x, 1.0)
    assert report.ok and [each.how for each in report.checked] == [how]
    (finding,) = bs.verify(OnlyIn.apply, x, -1.0).findings
    assert finding.title == "OnlyIn.backward returns the gradient of `x` with the wrong sign."


def test_nested_arguments_keywords_and_outputs() -> None:
    def model(batch: dict[str, torch.Tensor], pair: tuple[torch.Tensor, ...], *, scale: torch.Tensor) -> dict[str, Any]:
        return {"a": batch["x"] * scale, "b": (pair[0].exp(), [pair[1] @ pair[0]])}

    report = bs.verify(model, {"x": normal(2)}, (normal(3), normal(3)), scale=torch.tensor(2.0))
    assert [each.name for each in report.checked] == ["mul", "exp", "matmul"]


def test_complex_numbers() -> None:
    x = torch.randn(4, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    assert bs.verify(lambda x: (x * x.conj()).real.sum() + torch.fft.fft(x).abs().sum(), x).ok


def test_of_several_outputs_the_wrong_one_is_named() -> None:
    class Both(Function):
        @staticmethod
        def forward(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return a * b, a + b

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, product: torch.Tensor, total: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            a, b = ctx.saved_tensors
            return product * b + total, product * a - total

    (finding,) = bs.verify(Both, normal(3), normal(3) * 2).findings
    assert finding.code == "BS403" and finding.input == "b"
    assert finding.evidence[0] == (
        "Only what arrives through output 1 is checked here, counted from 0; there the gradient is wrong."
    )
    assert (
        finding.title == "Both.backward returns the gradient of `b` that arrives through output 1 with the wrong sign."
    )
    assert finding.fix == "Negate the part that arrives through output 1 and no other."


class Weighted(Function):
    """A weighted sum of many tensors; the gradient of the ninth, which is moved with the first, is twice too large."""

    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> torch.Tensor:
        return torch.stack([each * 10.0**-k for k, each in enumerate(tensors)]).sum(0)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(grad_output * 10.0**-k * (2 if k == 8 else 1) for k in range(len(ctx.needs_input_grad)))


def test_of_many_inputs_the_wrong_one_is_named_although_its_gradient_is_small() -> None:
    (finding,) = bs.verify(Weighted, *normal(9, 4)).findings
    assert finding.title == "Weighted.backward returns twice the right gradient for `tensors[8]`."
    assert bs.verify(lambda *tensors: torch.cat(tensors), *normal(300, 2)).ok


def test_an_operator_of_torch_library_is_named_and_its_backward_found() -> None:
    @torch.library.custom_op("backsight_test::cube", mutates_args=())
    def cube(x: torch.Tensor) -> torch.Tensor:
        return x**3

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return grad * x**2

    cube.register_autograd(backward, setup_context=setup)
    report = bs.verify(lambda x: cube(x) + torch.ops.backsight_test.cube(x), normal(4))
    assert [each.name for each in report.checked] == ["backsight_test::cube", "backsight_test::cube", "add"]
    (finding,) = report.findings
    assert finding.title == "the backward of backsight_test::cube returns 1/3 times the right gradient for `x`." or (
        finding.title == "the backward of backsight_test::cube returns a third of the right gradient for `x`."
    )
    assert finding.backward.text == "return grad * x**2"


def test_checkpointed_and_compiled_functions_are_looked_into() -> None:
    def block(x: torch.Tensor) -> torch.Tensor:
        return wrong.Square.apply(x).sin()

    assert bs.verify(lambda x: checkpoint(block, x, use_reentrant=False), normal(3)).findings[0].operation == "Square"
    assert [each.name for each in bs.verify(torch.compile(block), normal(3)).checked] == ["Square", "sin"]


def test_what_runs_inside_of_a_transform_is_tested_by_itself_and_as_a_whole() -> None:
    def each(x: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda row: row.sin() * row)(x).sum()

    def penalty(x: torch.Tensor) -> torch.Tensor:
        (gradient,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return gradient.square().sum()

    assert [done.name for done in bs.verify(each, normal(4, 3)).checked] == ["sin", "mul", "sum", "each as a whole"]
    assert "penalty as a whole" in [done.name for done in bs.verify(penalty, normal(3).requires_grad_()).checked]


def test_random_numbers_are_the_same_at_each_call_and_the_generator_is_put_back() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    report = bs.verify(lambda x: nn.functional.dropout(x, 0.5) * torch.rand(3), normal(3))
    assert report.ok and torch.equal(torch.get_rng_state(), before)


def test_u_and_v_are_independent() -> None:
    """For a square matrix <u, A u> = <Aᵀ u, u>: with v = u no missing transpose would be seen, nor a skew part."""

    class Skewed(Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x @ torch.arange(16.0, dtype=x.dtype).reshape(4, 4)

        @staticmethod
        def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
            return grad_output @ torch.arange(16.0, dtype=grad_output.dtype).reshape(4, 4)

    x = normal(4)
    assert [each.code for each in bs.verify(Skewed, x)] == ["BS405"]


def test_the_seed_makes_it_repeatable() -> None:
    texts = {str(bs.verify(wrong.Odd, normal(5, 5), seed=4)) for _ in range(3)}
    assert len(texts) == 1
    assert texts != {str(bs.verify(wrong.Odd, normal(5, 5), seed=5))}


# ---- the report


def test_a_report_raises_on_demand() -> None:
    report = bs.verify(wrong.Square, normal(3))
    assert not report.ok and len(report) == 1
    with pytest.raises(bs.VerificationFailed, match=r"Square\.backward returns half the right gradient"):
        report.raise_if()
    bs.verify(wrong.Rounding, normal(3)).raise_if("error")  # a straight-through estimator is a warning
    with pytest.raises(bs.VerificationFailed):
        bs.verify(wrong.Rounding, normal(3)).raise_if("warning")


def test_a_report_without_findings() -> None:
    report = bs.verify(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1)), normal(2, 3))
    report.raise_if("note")
    assert report.ok
    assert str(report) == "backsight: 3 operations tested, every backward is correct: linear ×2, relu"


def test_a_graph_that_is_alive_can_still_go_backward():
    """Putting buffers back is no change of theirs: the graph has saved them."""
    model, x = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), torch.randn(8, 4)
    loss = model(x).square().mean()
    versions = [buffer._version for buffer in model.buffers()]
    bs.verify(model, x)
    assert [buffer._version for buffer in model.buffers()] == versions
    loss.backward()


class Normalized(Function):
    """Divides by the norm, and forgets to in backward."""

    @staticmethod
    def forward(ctx, x):
        norm = x.norm(dim=1, keepdim=True)
        ctx.save_for_backward(x, norm)
        return x / norm

    @staticmethod
    def backward(ctx, grad_output):
        x, norm = ctx.saved_tensors
        unit = x / norm
        return grad_output - unit * (grad_output * unit).sum(1, keepdim=True)


@pytest.mark.parametrize("seed", [0, 1, 42])
def test_inputs_of_the_same_seed_are_not_their_own_grad_output(seed):
    """At right angles to its input the gradient of a normalization is 0 whatever its factor."""
    torch.manual_seed(seed)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    (found,) = bs.verify(Normalized.apply, x, seed=seed).findings
    assert "As called, it is right" not in str(found)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_terminal_shows_the_whole_fix_below_the_places(width: int) -> None:
    shown = printed(bs.verify(wrong.BadReLU, normal(6, 6)), width=width, terminal=True)
    _, places, fix = re.split(r"\n(?=  called |  fix: )", shown)
    assert re.match(r"  called .*\n  forward .*\n  backward .*$", places)
    assert " ".join(fix.split()) == (
        "fix: Write `grad_input[input >= 0] = grad_output[input >= 0]` instead of `grad_input[input >= 0] = 1`."
    )
