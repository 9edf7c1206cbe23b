"""Where a NaN or an infinity was born, and from which values."""

import math

import pytest
import torch
from columns import needs_columns
from marked_lines import line
from torch import nn

import backsight as bs


@pytest.fixture(autouse=True, params=["at once", "later"])
def looked_at(request, monkeypatch):
    """Results of the CPU are looked at as they come, those of a device later: here both are the CPU's."""
    if request.param == "later":
        monkeypatch.setattr("backsight.tracing.births.is_near", lambda tensor: False)


def births(watch):
    return [(each.phase, each.kind, each.op) for each in watch.nonfinite]


@needs_columns
def test_in_the_forward_pass():
    with bs.watch(nonfinite=True) as watch:
        probabilities = torch.tensor([0.5, 0.0, 1.0])
        logs = torch.log(probabilities)  # log
        (logs * 2).exp()
    (birth,) = watch.nonfinite
    assert (birth.phase, birth.kind, birth.op, birth.bad, birth.total) == ("forward", "inf", "log", 1, 3)
    assert birth.line.line == line("log", test_in_the_forward_pass)
    assert [(each.text, each.at) for each in birth.operands] == [("probabilities", (0.0,))]


@needs_columns
def test_in_a_backward_although_the_branch_is_masked():
    x = torch.tensor([4.0, 0.0], requires_grad=True)
    with bs.watch(nonfinite=True) as watch:
        root = x.sqrt()  # root
        torch.where(x > 0, root, torch.zeros_like(x)).sum().backward()  # backward
    (birth,) = watch.nonfinite
    assert (birth.phase, birth.kind, birth.op) == ("backward", "nan", "SqrtBackward0")
    assert birth.line.line == line("root", test_in_a_backward_although_the_branch_is_masked)
    assert birth.incoming == (0.0,)
    assert [(each.text, each.at) for each in birth.operands] == [("x.sqrt()", (0.0,))]
    assert watch.backwards[birth.backward].line.line == line(
        "backward", test_in_a_backward_although_the_branch_is_masked
    )


def test_infinity_and_then_nan_are_two_births():
    x = torch.zeros(2, requires_grad=True)
    with bs.watch(nonfinite=True) as watch:
        ((x * 0).sqrt() * 1.0).sum().backward()
    assert births(watch) == [("backward", "inf", "SqrtBackward0"), ("backward", "nan", "MulBackward0")]


def test_overflow_of_a_half():
    with bs.watch(nonfinite=True) as watch:
        large = torch.full((2,), 60000.0, dtype=torch.float16)
        overflown = large * 2
    assert overflown.isinf().all()
    (birth,) = watch.nonfinite
    assert (birth.kind, birth.op, birth.dtype, birth.operands[0].at) == ("inf", "mul", "float16", (60000.0, 60000.0))


def test_a_softmax_of_nothing_but_minus_infinity():
    scores, mask = torch.zeros(2, 3), torch.tensor([[False] * 3, [True] * 3])
    with bs.watch(nonfinite=True) as watch:
        scores.masked_fill(mask, -math.inf).softmax(-1)
    assert births(watch) == [("forward", "nan", "softmax")]


@pytest.mark.parametrize(
    "deliberate",
    [
        lambda: torch.full((3,), -math.inf).triu if False else torch.full((3, 3), -math.inf).triu(1),
        lambda: torch.zeros(3).masked_fill(torch.tensor([True, False, False]), -math.inf).softmax(0),
        lambda: torch.tensor([math.nan, 1.0]).nan_to_num(),
        lambda: torch.tensor([math.inf]).clamp(max=5.0),
        lambda: torch.where(torch.tensor([True, False]), torch.ones(2), -math.inf).exp(),
        lambda: torch.empty(1000).fill_(1.0),
    ],
)
def test_what_is_meant_is_no_birth(deliberate):
    with bs.watch(nonfinite=True) as watch:
        deliberate()
    assert watch.nonfinite == ()


def test_a_sum_that_overflows_is_no_birth_of_its_operands():
    with bs.watch(nonfinite=True) as watch:
        torch.full((4,), 3e38) * 1.0
    assert watch.nonfinite == ()


def test_a_healthy_training_gives_birth_to_nothing():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, enable_nested_tensor=False)
    opt = torch.optim.AdamW(model.parameters())
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    with bs.watch(nonfinite=True) as watch:
        for _ in range(2):
            loss = model(torch.randn(2, 4, 8), mask=mask).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    assert watch.nonfinite == ()


def test_births_are_looked_for_at_the_exact_level():
    with bs.watch(level="lines", nonfinite=True) as watch:
        assert watch.level == "exact"


@needs_columns
def test_an_operand_that_was_given_by_name():
    scale, zero = torch.ones(2, requires_grad=True), torch.zeros(2)
    with bs.watch(nonfinite=True) as watch:
        quotient = torch.div(input=scale, other=zero)
    assert quotient.isinf().all()
    (birth,) = watch.nonfinite
    assert [(each.text, each.at) for each in birth.operands] == [("scale", (1.0, 1.0)), ("zero", (0.0, 0.0))]
