"""`backsight run --nonfinite`: told at once, once, and only if it reached the gradients of a step."""

import re

import pytest
from columns import needs_columns

TRAINING = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 4)
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    x = torch.randn(16, 8)
    {data}
    y = model(x)
    loss = {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, flush=True)
"""


def program(loss, data=""):
    return TRAINING.format(loss=loss, data=data)


def observed(bench, source, *options):
    bench.write("train.py", source)
    return bench.observed("--nonfinite", *options, "train.py")


def said(ended):
    """What backsight found."""
    return re.split(r"backsight found\n-+\n", ended.err)[1:]


@needs_columns
def test_the_origin_is_told_with_what_it_reached(bench):
    ended = observed(bench, program("torch.where(y > 0, y.sqrt(), torch.zeros_like(y)).mean()"))
    assert ended.status == 0
    (found,) = said(ended)
    assert found.startswith(
        "error BS112  y.sqrt() is NaN where the loss does not use it, so the gradient is NaN: y is -"
    )
    assert "It reached the gradients of model.weight and model.bias, in step 0." in found
    assert "train.py:12  " in found
    assert "where the result is not used: torch.where(y > 0, y, 1.0).sqrt()." in " ".join(found.split())
    assert "nothing found" not in ended.err


@needs_columns
def test_a_loss_that_is_lost(bench):
    (found,) = said(observed(bench, program("y.square().mean() / (step - 2)")))
    assert found.startswith("error BS112  y.square().mean() / (step - 2) is infinite: ")
    assert "in step 2." in found


def test_data_that_is_not_finite(bench):
    (found,) = said(observed(bench, program("y.square().mean()", "x[3, 2] = float('nan') if step == 2 else 0.0")))
    assert found.startswith("error BS112  x, an input of Linear, holds 1 NaN of 128 values (shape 16×8).\n")
    assert "in step 2." in found and "fix: Check where this data comes from" in found


def test_weights_that_were_not_finite_from_the_start(bench):
    (found,) = said(observed(bench, program("y.square().mean()", "model.weight.data[0, 0] = float('nan')")))
    assert found.startswith(
        "error BS112  The inputs already contained NaN or infinity: no operation on finite values produced it."
    )


@pytest.mark.parametrize(
    "loss",
    [
        "y.square().mean()",
        "torch.where(y > 0, torch.where(y > 0, y, 1.0).sqrt(), 0.0).mean()",
        "torch.where(y.relu() > 0, y.relu().sqrt(), 0.0).mean()",  # relu lets no gradient through at 0
        "y.masked_fill(torch.eye(16, 4).bool(), float('-inf')).softmax(-1).square().mean()",
        "(y * torch.zeros(4).log().clamp_min(-9.0)).mean()",
    ],
)
def test_what_does_no_harm_is_not_told(bench, loss):
    ended = observed(bench, program(loss))
    assert ended.status == 0 and said(ended) == []
    assert ended.err.startswith("backsight: nothing found in 6 optimizer steps: ")


def test_a_step_that_a_gradient_scaler_skips_is_not_told(bench):
    source = """
    import torch
    from torch import nn

    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    for step in range(3):  # of which none comes to a step: the loss is infinite once it is scaled
        loss = model(torch.ones(16, 8)).square().sum() * 10 + 100
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    print(scaler.get_scale() < 2.0**127)
    """
    import textwrap

    ended = observed(bench, textwrap.dedent(source))
    assert ended.out == "True\n"
    assert said(ended) == []


@needs_columns
def test_a_nan_that_a_gradient_scaler_skips_for_ever_is_told(bench):
    source = """
import torch
from torch import nn

model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for step in range(3):
    loss = (model(torch.ones(16, 8)).mean() - 100).sqrt()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
    (finding,) = said(observed(bench, source))
    assert finding.startswith("error BS112  (model(torch.ones(16, 8)).mean() - 100).sqrt() is NaN")
    assert "The last loss was not finite; no optimizer step used its gradients." in finding


@needs_columns
def test_it_is_told_before_the_program_goes_on(bench):
    source = program("y.log().mean()") + "\nimport os\nos._exit(3)\n"  # no moment is left at the end
    ended = observed(bench, source)
    assert ended.status == 3
    assert said(ended)[0].startswith("error BS112  y.log() is NaN: y is -")
    # log has a slope below 0, where it has no value
    assert "The loss was not finite in step 0, but the gradients were." in said(ended)[0]


@needs_columns
def test_a_loss_that_no_step_was_made_with(bench):
    source = program("y.exp().mean() / 0").replace("    optimizer.step()", "    continue")
    (found,) = said(observed(bench, source))
    assert found.startswith("error BS112  y.exp().mean() / 0 is infinite: ")
    assert "The last loss was not finite; no optimizer step used its gradients." in found


@pytest.mark.parametrize(
    "loss", [pytest.param("torch.where(y > 0, y.sqrt(), y).mean()", marks=pytest.mark.process), "y.square().mean()"]
)
def test_weights_are_those_of_plain_python(bench, loss):
    bench.write("train.py", program(loss) + "print(model.weight.double().sum().item())\n")
    assert bench.forked.python("train.py").out == bench.observed("--nonfinite", "train.py").out
