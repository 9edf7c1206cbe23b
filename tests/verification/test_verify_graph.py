"""`verify_graph`: what is told of live nodes."""

from __future__ import annotations

import itertools

import misbehaving
import pytest
import torch
import wrong
from sharded import shards
from torch import nn
from torch.utils._pytree import tree_leaves

import backsight as bs


def x_of(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=dtype).requires_grad_()


def said(loss: torch.Tensor) -> str:
    """What is found, in one line, without the places."""
    lines = str(bs.verify_graph(loss)).split("\n")
    return " ".join(" ".join(each for each in lines if not each.startswith(("  forward ", "  backward "))).split())


# ---- what is found


def test_a_term_outside_of_the_product() -> None:
    loss = wrong.Poly.apply(x_of(3)).sum()
    assert said(loss) == (
        "backsight: 1 of 2 nodes has a wrong backward: Poly "
        "error BS402 The backward of Poly adds 2 without multiplying it by grad_output. "
        "For a grad_output of zeros it returns 2 in every entry for `input`; it must return 0: without an incoming "
        "gradient there is no outgoing gradient. "
        "fix: If it belongs to the derivative: put the sum in parentheses: `grad_output * (6 * input + 2)`. If not, "
        "remove it."
    )
    (finding,) = bs.verify_graph(loss)
    assert (finding.operation, finding.input) == ("Poly", "input")
    assert finding.forward.text == "def forward(ctx: Any, input: torch.Tensor) -> torch.Tensor:"
    assert finding.backward.text == "def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:"
    assert finding.source.startswith("wrong.py:") or "tests/verification/wrong.py" in finding.source


def test_ones_instead_of_grad_output() -> None:
    assert said(wrong.BadReLU.apply(x_of(4, 3)).sum()) == (
        "backsight: 1 of 2 nodes has a wrong backward: BadReLU "
        "error BS401 The backward of BadReLU ignores grad_output. "
        "5 of 12 entries of the gradient that it returns for `input` stay the same, whatever grad_output is (the first "
        "stays 1). "
        "By the chain rule each entry is grad_output times the derivative of forward, d loss/d input = d loss/d output "
        "· d output/d input; the first factor is missing. "
        "fix: Write `grad_input[input >= 0] = grad_output[input >= 0]` instead of `grad_input[input >= 0] = 1`."
    )


def found(loss: torch.Tensor) -> list[tuple[str, str, str]]:
    """Severity, code and title of what is found, the gravest first."""
    return [(each.severity, each.code, each.title) for each in bs.verify_graph(loss)]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (misbehaving.Mutating, ("error", "BS410", "The backward of Mutating modifies grad_output in place.")),
        (misbehaving.Noisy, ("error", "BS411", "The backward of Noisy is not deterministic.")),
        (
            misbehaving.ChangingSaved,
            ("error", "BS412", "The backward of ChangingSaved modifies a tensor that forward saved: `ctx.derivative`."),
        ),
        (misbehaving.Squares, ("error", "BS418", "The backward of Squares is not linear in grad.")),
        (misbehaving.Clipped, ("error", "BS418", "The backward of Clipped is not linear in grad_output.")),
        (misbehaving.Normalises, ("error", "BS418", "The backward of Normalises is not linear in grad.")),
        (
            misbehaving.WrongShape,
            ("error", "BS406", ("The backward of WrongShape returns something that autograd refuses.")),
        ),
        (
            misbehaving.Single,
            ("warning", "BS413", "The backward of Single computes the gradient of `x` in float32, forward in float64."),
        ),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_each_kind_of_wrong_backward(function: type, expected: tuple[str, str, str]) -> None:
    assert found(function.apply(x_of(4)).sum()) == [expected]


def test_a_saved_tensor_that_is_changed_is_put_back_so_that_backward_does_not_raise() -> None:
    class Cosine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.cos())
            return x.sin()

        @staticmethod
        def backward(ctx, grad):
            (cosine,) = ctx.saved_tensors
            return cosine.mul_(grad)

    x = x_of(4)
    loss = Cosine.apply(x).sum()
    (finding,) = bs.verify_graph(loss)
    assert finding.title == "The backward of Cosine modifies a tensor that forward saved: `saved_tensors[0]`."
    loss.backward()
    torch.testing.assert_close(x.grad, x.detach().cos())


def test_how_a_backward_that_is_not_linear_grows() -> None:
    (squares,) = bs.verify_graph(misbehaving.Squares.apply(x_of(4)).sum())
    (normalises,) = bs.verify_graph(misbehaving.Normalises.apply(x_of(4)).sum())
    assert squares.evidence[-1] == "Twice the grad makes it 4 times as large."
    assert normalises.evidence[-1] == "Twice the grad makes it just as large."


def test_a_gradient_that_is_missing() -> None:
    x, w = x_of(4), x_of(4)
    assert found(misbehaving.Raising.apply(x, w).sum()) == [
        ("error", "BS406", "The backward of Raising returns something that autograd refuses.")
    ]
    assert found(wrong.Nothing.apply(x, w).sum()) == [
        ("warning", "BS409", "The backward of Nothing returns None for `weight`, which needs a gradient.")
    ]


def test_a_function_at_many_nodes_is_told_of_once() -> None:
    h = x_of(3)
    for _ in range(5):
        h = wrong.Poly.apply(h.tanh())
    report = bs.verify_graph(h.sum())
    (finding,) = report
    assert finding.evidence[-1] == "The same at 4 more nodes of this graph."
    assert [each.name for each in report.wrong] == ["Poly"] * 5


def test_the_module_of_a_wrong_function_is_named() -> None:
    class Square(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return wrong.Poly.apply(x)

    model = nn.Sequential(nn.Linear(3, 3), Square())
    with bs.watch():
        loss = model(torch.randn(2, 3)).sum()
        (finding,) = bs.verify_graph(loss, model=model)
    assert finding.title.startswith("The backward of Poly (in 1) adds 2")


def test_an_operator_of_a_library_is_named_with_its_places() -> None:
    @torch.library.custom_op("backsight_tests::square_of_graph", mutates_args=())
    def square(x: torch.Tensor) -> torch.Tensor:
        return x * x

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x + 1

    square.register_autograd(backward, setup_context=keep)
    (finding,) = bs.verify_graph(square(x_of(3)).sum())
    assert (finding.operation, finding.input) == ("backsight_tests::square_of_graph", "x")
    assert finding.forward.text == "def square(x: torch.Tensor) -> torch.Tensor:"
    assert finding.backward.text == "def backward(ctx, grad):"


def test_inputs_are_called_what_forward_calls_them() -> None:
    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(first, *rest):
            return first + sum(rest)

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad):
            return grad + 1, None, grad + 1

    report = bs.verify_graph(Sum.apply(x_of(3), torch.ones(3), x_of(3)).sum())
    assert [finding.input for finding in report] == ["first", "rest[1]"]


class Right(torch.autograd.Function):
    """Two inputs, two outputs, an argument that is no tensor, and one gradient that is not needed."""

    @staticmethod
    def forward(ctx, x, power, w):
        ctx.save_for_backward(x, w)
        ctx.power = power
        return x**power, x * w

    @staticmethod
    def backward(ctx, of_power, of_product):
        x, w = ctx.saved_tensors
        return of_power * ctx.power * x ** (ctx.power - 1) + of_product * w, None, of_product * x


def test_wrong_functions_among_many_are_found_and_none_else() -> None:
    lin, norm = nn.Linear(6, 6).double(), nn.LayerNorm(6).double()
    h = norm(wrong.BadReLU.apply(lin(x_of(6, 6)))) + wrong.Poly.apply(lin(x_of(6, 6))).sin()
    h = misbehaving.Squares.apply(misbehaving.Clipped.apply(torch.relu(h @ h.T).softmax(-1)))
    h = misbehaving.Mutating.apply(misbehaving.Noisy.apply(h[:, :3].cumsum(0)))
    h = misbehaving.Normalises.apply(Right.apply(h, 3, h.exp())[1].flip(0))
    report = bs.verify_graph(h.mean())
    names = {"BadReLU", "Poly", "Squares", "Clipped", "Mutating", "Noisy", "Normalises"}
    assert {each.name for each in report.wrong} == names
    assert {finding.operation for finding in report} == names


def test_a_backward_that_raises_at_zero_is_judged_by_the_rest() -> None:
    class Divides(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            if not grad.any():
                raise ZeroDivisionError("no gradient")
            return grad / grad.abs().max() + 1

    assert found(Divides.apply(x_of(3)).sum()) == [("error", "BS418", "The backward of Divides is not linear in grad.")]


# ---- what is right


def test_right_functions_are_clean() -> None:
    x, w = x_of(4, 3), x_of(4, 3)
    a, b = Right.apply(x, 3, w)
    report = bs.verify_graph(a.sum() * b.mean())
    assert report.ok and not report.findings and not report.skipped
    assert str(report) == (
        "backsight: 4 nodes tested, every backward is linear and deterministic: Mul, Mean, Sum, Right"
    )


def test_only_a_rerun_can_tell_a_wrong_factor() -> None:
    assert bs.verify_graph(wrong.Square.apply(x_of(4)).sum()).ok


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex128])
def test_every_dtype_has_its_own_tolerance(dtype: torch.dtype) -> None:
    x = x_of(8, 8).to(dtype).detach().requires_grad_()
    loss = ((x @ x).cumsum(0) * x.sum(1, keepdim=True)).abs().float().mean()
    assert bs.verify_graph(loss).findings == ()


def test_a_sparse_gradient() -> None:
    embedding = nn.Embedding(10, 3, sparse=True)
    report = bs.verify_graph(embedding(torch.tensor([1, 1, 7])).sum())
    assert report.ok and {each.name for each in report.checked} == {"Embedding", "Sum"}


KNOWN = {"logcumsumexp": "computes with logarithms: at inputs of 10,000 float32 loses what is smaller than 0.001"}
"""Operators whose backward is not linear to the digits of its dtype, each with the cause."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.complex128])
@pytest.mark.parametrize("shard", shards(12))
def test_the_operators_of_pytorch_are_clean(shard: int, dtype: torch.dtype) -> None:
    from operators import operators

    flagged: set[str] = set()
    nodes = 0
    for op in operators()[shard::12]:
        if not op.supports_autograd or dtype not in op.supported_backward_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=True), 1):
            output = op(sample.input, *sample.args, **sample.kwargs)
            roots = [t for t in tree_leaves(output) if isinstance(t, torch.Tensor) and t.requires_grad]
            if roots:
                report = bs.verify_graph(*roots)
                nodes += len(report.checked)
                flagged |= {op.name} if report.findings else set()
    assert flagged <= set(KNOWN)
    assert nodes > 35
