"""`verify_second_order`: silently wrong double backwards are found and their cause is named; right ones are clean."""

from __future__ import annotations

import itertools
import re

import pytest
import second_order_functions as functions
import torch
import torch.nn.functional as F
from sharded import shards
from torch import nn

import backsight as bs


def x_of(*shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(*shape)


def test_the_example_of_pytorch_58509_is_explained() -> None:
    report = bs.verify_second_order(functions.Intermediate.apply, x_of(4))
    lines = [
        line for line in str(report).split("\n") if not line.startswith(("  called ", "  forward ", "  backward "))
    ]
    said = re.sub(r"is -?[\d.]+ by diff", "is # by diff", "\n".join(lines))
    assert said.replace("tests/verification/", "") == (
        "backsight: 1 of 1 operation has a wrong second derivative: Intermediate\n"
        "\n"
        "error BS420  The second derivative of Intermediate is silently wrong: autograd cannot see through ctx.t.\n"
        "  second_order_functions.py:17  ctx.t = t\n"
        "  ctx.t is computed in forward, which autograd does not record: when backward is differentiated, it is a\n"
        "  constant.\n"
        "  With respect to x, along a random direction, it is # by differences of the gradient and 0 by double\n"
        "  backward.\n"
        "  fix: Save the inputs of forward (ctx.save_for_backward) and recompute ctx.t from them in backward. Or "
        "return\n"
        "  it as one more output of forward and save that. If you need no second derivative, mark backward\n"
        "  @once_differentiable: then it raises."
    )


@pytest.mark.parametrize(
    ("function", "through", "line"),
    [
        (functions.Intermediate, "ctx.t", "ctx.t = t"),
        (functions.SavedIntermediate, "`y`", "ctx.save_for_backward(x, y)"),
        (functions.Number, "ctx.norm", "ctx.norm = norm.item()"),
        (functions.Array, "ctx.cosine", "ctx.cosine = np.cos(x.numpy(force=True))"),
        (functions.WithSetup, "ctx.derivative", "ctx.derivative = inputs[0].exp()"),
        (functions.Normalised, "`mean` and `std`", "ctx.save_for_backward(x, mean, std)"),
        (functions.Detached, "`x.detach()`", "return grad * x.detach().cos()"),
        (functions.NotRecorded, "`torch.no_grad()`", "with torch.no_grad():"),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_what_autograd_cannot_see_through_is_named_with_its_line(function: type, through: str, line: str) -> None:
    assert bs.verify(function.apply, x_of(5)).ok, "its first derivative is right"
    (finding,) = bs.verify_second_order(function.apply, x_of(5))
    assert finding.code == "BS420"
    assert finding.title.endswith(f"is silently wrong: autograd cannot see through {through}.")
    where, _, text = finding.evidence[0].partition("  ")
    assert where == finding.source and text == line
    assert finding.operation == function.__name__


def test_an_operator_of_a_library() -> None:
    @torch.library.custom_op("backsight_tests::squared_twice", mutates_args=())
    def square(x: torch.Tensor) -> torch.Tensor:
        return x * x

    def keep(ctx, inputs, output):
        ctx.double = 2 * inputs[0].detach()

    square.register_autograd(lambda ctx, grad: grad * ctx.double, setup_context=keep)
    (finding,) = bs.verify_second_order(square, x_of(3))
    assert finding.title == (
        "The second derivative of backsight_tests::squared_twice is silently wrong: "
        "autograd cannot see through ctx.double."
    )


def test_it_is_found_among_others() -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.LayerNorm(5), nn.Linear(5, 2))

    def penalty(x: torch.Tensor) -> torch.Tensor:
        h = functions.Output.apply(model(x))
        return F.log_softmax(functions.Intermediate.apply(h) + functions.Detached.apply(h), -1).mean()

    report = bs.verify_second_order(penalty, x_of(4, 3))
    assert {finding.operation for finding in report} == {"Intermediate", "Detached"}
    assert {each.name for each in report.checked} >= {"linear", "tanh", "layer_norm", "Output", "log_softmax", "mean"}


RIGHT = {
    "square": lambda x, w: x**2,
    "sine": lambda x, w: x.sin() * x,
    "exponential": lambda x, w: torch.exp(x),
    "logarithm": lambda x, w: torch.log1p(x.abs()),
    "matrix product": lambda x, w: x @ w.T,
    "einsum": lambda x, w: torch.einsum("ij,kj->ik", x, w),
    "softmax": lambda x, w: x.softmax(-1),
    "logsumexp": lambda x, w: x.logsumexp(0),
    "cross entropy": lambda x, w: F.cross_entropy(x, torch.tensor([0, 1, 2, 0])),
    "relu": lambda x, w: torch.relu(x),
    "gelu": lambda x, w: F.gelu(x),
    "silu": lambda x, w: F.silu(x),
    "layer norm": lambda x, w: F.layer_norm(x, (3,), w[0]),
    "batch norm": lambda x, w: F.batch_norm(x, None, None, training=True),
    "convolution": lambda x, w: F.conv1d(x[None], w[:, :, None].expand(4, 3, 2).transpose(0, 1)[:, :4], None),
    "norm": lambda x, w: x.norm(dim=1),
    "inverse": lambda x, w: torch.linalg.inv(x[:3] + 5 * torch.eye(3)),
    "division": lambda x, w: x / (1 + w**2),
    "cumulative product": lambda x, w: x.cumprod(0),
    "maximum": lambda x, w: x.max(1).values * w.amin(1),
    "dropout": lambda x, w: F.dropout(x**2, 0.5),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], w[None], x[None] * w[None]),
    "indexing": lambda x, w: (x[[0, 0, 2]] * w[1:]).sum(0),
    "a linear function": lambda x, w: 2 * x + w,
    "an input on ctx": lambda x, w: functions.Input.apply(x, w),
    "an output that was saved": lambda x, w: functions.Output.apply(x),
    "an intermediate as output": lambda x, w: functions.IntermediateAsOutput.apply(x)[0] * w,
    "a Function in backward": lambda x, w: functions.ByAnotherFunction.apply(x),
    "a mask": lambda x, w: functions.Mask.apply(x),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_functions_are_clean(name: str) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(4, 3), torch.randn(4, 3)
    report = bs.verify_second_order(RIGHT[name], x, w)
    assert report.ok and not report.findings, str(report)


def test_modules_with_parameters_and_buffers() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Softplus(), nn.Flatten(), nn.Linear(12, 2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert bs.verify_second_order(model, x_of(2, 2, 4, 4)).ok
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_what_says_itself_that_it_has_no_second_derivative_is_not_wrong() -> None:
    report = bs.verify_second_order(functions.Once.apply, x_of(3))
    assert str(report) == (
        "backsight: nothing could be tested\n"
        "not tested: Once (it is marked @once_differentiable: a second derivative raises instead of being wrong)"
    )


def test_the_class_of_a_function_stands_for_its_apply() -> None:
    assert len(bs.verify_second_order(functions.Intermediate, x_of(3))) == 1


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^verify_second_order\(\) expects a function or a module .*, not Tensor\.$"):
        bs.verify_second_order(torch.ones(2), torch.ones(2))


def test_what_has_nothing_to_differentiate_is_refused_by_the_name_of_the_function_that_was_called() -> None:
    with pytest.raises(bs.NothingToVerify, match=r"^verify_second_order\(\) called lambda, which returned an int64"):
        bs.verify_second_order(lambda x: x * 2, torch.tensor(3))


def test_an_option_whose_name_the_function_has_too_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^verify_second_order\(seed=\.\.\.\) is an option of verify_second_order and"):
        bs.verify_second_order(lambda x, seed: x * seed, x_of(3), seed=3)


KNOWN = {
    "nn.functional.linear_cross_entropy": "its gradient is made in forward and kept: PyTorch's own BS420",
}
"""Operators of PyTorch whose second derivative is flagged, each with the cause."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shard", shards(8))
def test_the_operators_of_pytorch_are_clean(shard: int) -> None:
    from operators import operators

    flagged: set[str] = set()
    tested = 0
    for op in operators()[shard::8]:
        if not op.supports_gradgrad or torch.float64 not in op.supported_backward_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        for sample in itertools.islice(op.sample_inputs("cpu", torch.float64, requires_grad=True), 1):

            def called(*args: object, op=op, sample=sample, **kwargs: object) -> object:
                output = op.gradcheck_wrapper(op.get_op(), *args, **kwargs)
                return (sample.output_process_fn_grad or (lambda x: x))(output)

            try:
                report = bs.verify_second_order(called, sample.input, *sample.args, progress=False, **sample.kwargs)
            except (bs.NothingToVerify, RuntimeError):  # no gradient; as_strided of a copy
                continue
            tested += len(report.checked)
            flagged |= {op.name} if report.findings else set()
    assert {name for name in flagged if name not in KNOWN} == set()
    assert tested > 40
