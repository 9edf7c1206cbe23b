"""BS114 under `backsight run`: a loss that does not depend on what the model was given."""

import re
import sys

import pytest
import torch
from torch import nn

from backsight.launch.outputs import Outputs

TRAINING = """
import torch
from torch import nn

torch.manual_seed(0)
{begin}
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def train(steps):
    for _ in range(steps):
        x, y = torch.randn(16, 4), torch.randn(16, 1)
        {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

train(8)
"""
MODEL = "model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))"
ZEROS = MODEL + "\nnn.init.zeros_(model[2].weight)"
DEAD = MODEL + "\nnn.init.constant_(model[0].bias, -100.0)"
PENALTY = "sum(p.square().sum() for p in model.parameters())"


def found(bench, loss, begin=MODEL):
    bench.write("train.py", TRAINING.format(begin=begin, loss=loss))
    ended = bench.observed("train.py")
    assert ended.status == 0, ended.err
    said = re.split(r"backsight found[^\n]*\n-+\n", ended.err)[1:]
    return said[0] if said else ""


def test_a_result_that_is_cut_off_is_told_with_the_cut(bench):
    said = found(bench, f"loss = (model(x).detach() - y).square().mean() + {PENALTY}")
    assert said.startswith("warning BS114  The loss does not depend on the output of model.\n")
    assert "in 3 steps its output received no gradient" in said
    assert "train.py:12  loss = (model(x).detach() - y)" in said


def test_a_result_that_is_not_used(bench):
    said = found(bench, f"model(x); loss = {PENALTY}")
    assert said.startswith("warning BS114  The loss does not depend on the output of model.\n")


def test_a_model_that_has_died(bench):
    said = found(bench, "loss = (model(x) - y).square().mean()", DEAD)
    assert (
        "warning BS114  model returns bit-identical outputs for all 16 rows of its input: a ReLU in it is dead.\n"
        in said
    )
    assert "This happened in 3 steps in a row, although its input rows differ." in said


@pytest.mark.parametrize(
    ("loss", "begin"),
    [
        ("loss = (model(x) - y).square().mean()", MODEL),
        (f"loss = (model(x) - y).square().mean() + {PENALTY}", MODEL),
        ("loss = (model(x) - y).square().mean()", ZEROS),  # alike in the first step alone
        ("model(x); loss = (model(x) - y).square().mean()", MODEL),
        ("loss = (model(x.detach()) - model(x).detach() - y).square().mean()", MODEL),
        ("loss = (model(torch.ones(16, 4)) - y).square().mean()", MODEL),  # rows that are the same
        ("loss = (model(x[:2]) - y[:2]).square().mean()", MODEL),
        ("loss = (torch.func.functional_call(model, dict(model.named_parameters()), x) - y).square().mean()", MODEL),
        ("loss = (model(x) - y).square().mean()", f"{MODEL}\nmodel.eval()"),
    ],
)
def test_what_depends_on_its_input_is_left_in_peace(bench, loss, begin):
    assert found(bench, loss, begin) == ""


def test_a_step_now_and_then_without_the_model_is_in_order(bench):
    assert found(bench, f"loss = {PENALTY} if _ % 3 else (model(x) - y).square().mean()") == ""


def told(alike):
    """The codes of what is said of a model whose rows were all alike, or not, in each of these steps."""
    outputs, model, x = Outputs(), nn.Linear(4, 1), torch.arange(32.0).reshape(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, same in enumerate(alike, 1):
        outputs.returned(model, (x,), torch.ones(8, 1) if same else x[:, :1])
        outputs.heard()
        outputs.stepping(optimizer, step, 0, sys._getframe())
    return [finding.code for finding in outputs.findings]


def test_rows_may_be_alike_at_first_and_are_compared_once_the_training_has_settled():
    assert told([True] * 4 + [False] * 4) == []
    assert told([True] * 6) == []
    assert told([True] * 7) == ["BS114"]
    assert told([False] * 4 + [True, True, False, True, True]) == [], "three in a row"


@pytest.mark.parametrize("wakes, told", [(12, False), (40, False), (200, False), (10_000, True)])
def test_a_model_that_is_silent_at_first_and_learns_is_not_told(bench, wakes, told):
    """As a spiking network, none of whose neurons fires in the first steps."""
    begin = f"""
class Late(nn.Linear):
    calls = 0

    def forward(self, x):
        Late.calls += 1
        return super().forward(x) if Late.calls > {wakes} else super().forward(x) * 0.0

model = Late(4, 1)
"""
    bench.write("train.py", TRAINING.format(begin=begin, loss="loss = (model(x) - y).square().mean()") + "train(300)\n")
    ended = bench.observed("train.py")
    assert ended.status == 0 and ("BS114" in ended.err) == told
