"""How long two trainings agree, by the summaries of all steps."""

from __future__ import annotations

import sys
from pathlib import Path

import fresh
import numpy as np
import pytest
import torch
from trainings_traced import Training

import backsight as bs
from backsight.launch import twice
from backsight.launch.twice import run_both, run_twice
from backsight.traces.agreement import FLOOR, JUMP, agreement, unlike
from backsight.traces.records import Summary
from backsight.traces.tracer import Tracer

HERE = Path(__file__).parent
LATER = str(HERE / "later.py")


def summary(step, grads, weights=(1.0,), bits=None, lr=0.1):
    held = [np.array(each, np.float32) for each in (grads, weights)]
    return Summary(step, bits or f"{grads}{weights}", (({"lr": lr},),), *held)


class Summed:
    def __init__(self, *summaries):
        self.summaries = summaries


def agreed(a, b):
    return agreement(Summed(*a), Summed(*b))


def series(*grads, **options):
    return [summary(step, [each], **options) for step, each in enumerate(grads)]


def test_steps_that_agree_to_the_last_bit_have_no_departure():
    found = agreed(series(1.0, 2.0), series(1.0, 2.0))
    assert (found.bits, found.beyond, found.steps) == (None, None, 2)


def test_a_single_bit_is_a_departure_where_all_agreed_before():
    found = agreed(series(1.0, 2.0, 3.0), [*series(1.0, 2.0), summary(2, [3.0], bits="other")])
    assert found.bits.step == 2
    assert found.beyond is None


def test_rounding_that_grows_is_no_departure_and_a_jump_beyond_it_is():
    noise = [1.0 + FLOOR * 5**step for step in range(4)]
    assert agreed(series(*[1.0] * 4), series(*noise)).beyond is None
    jump = 1.0 + 2 * JUMP * (noise[3] - 1.0)
    assert agreed(series(*[1.0] * 5), series(*noise, jump)).beyond.step == 4


def test_a_learning_rate_that_agreed_before_is_a_departure_and_one_that_never_did_is_none():
    ours = series(1.0, 1.0, 1.0)
    late = [*ours[:2], summary(2, [1.0], lr=0.2)]
    assert "`lr` of the optimizer is 0.1 in A and 0.2 in B" in agreed(ours, late).beyond.reason
    assert agreed(ours, series(1.0, 1.0, 1.0, lr=0.2)).beyond is None


def test_a_gradient_that_is_missing_from_a_step_on_is_a_departure():
    ours = [summary(step, [1.0, 2.0]) for step in range(3)]
    found = agreed(ours, [*ours[:2], summary(2, [1.0, -1.0])])
    assert found.beyond.reason == "0 parameters have no gradient in A, and 1 in B"


def test_neither_the_order_of_parameters_nor_fused_ones_are_a_departure():
    ours = [summary(step, [3.0, 4.0]) for step in range(3)]
    assert agreed(ours, [summary(step, [4.0, 3.0]) for step in range(3)]).beyond is None
    assert agreed(ours, [summary(step, [5.0]) for step in range(3)]).beyond is None


def test_a_gradient_that_becomes_nan_in_one_is_a_departure():
    assert agreed(series(1.0, 1.0, 1.0), series(1.0, 1.0, float("nan"))).beyond.step == 2


def test_a_run_that_took_another_step_did_not_reproduce():
    first = Summed(*series(1.0, 2.0, 3.0))
    assert unlike(first, Summed(*series(1.0, 2.0, 3.0)), 2) is None
    assert unlike(first, Summed(*series(1.0, 2.5, 3.0)), 2) == 1
    assert unlike(first, Summed(*series(1.0, 2.0)), 2) == 2


@pytest.fixture
def summed(tmp_path):
    def run(name, steps=5, trace=(0,), change=None):
        training = Training()
        tracer = Tracer(tmp_path / name, trace, values=False, say=print, summaries=True)
        tracer.start()
        for step in range(steps):
            if step == 3 and change is not None:
                change(training)
            training.run(1)
        tracer.close()
        return training, bs.open_trace(tmp_path / name)

    return run


def test_every_step_has_a_summary_and_every_bit_is_as_without(summed):
    training, trace = summed("a")
    assert [each.step for each in trace.summaries] == [0, 1, 2, 3, 4]
    assert all(map(torch.equal, training.bits(), Training().run(5).bits()))
    norms = [float(each.grad.norm()) for each in training.model.parameters()]
    assert trace.summaries[-1].grads.tolist() == pytest.approx(norms, rel=1e-6)
    assert trace.summaries[-1].optimizers[0][0]["lr"] == 0.01


def test_folders_say_which_step_to_trace(summed):
    _, a = summed("a")
    _, b = summed("b", change=lambda training: training.optimizer.param_groups[0].update(weight_decay=0.5))
    found = bs.diff(a, b)
    assert [each.step for each in found.untraced] == [3]
    assert "both agree to the last bit in steps 0 to 2; they part at step 3, which is not traced" in str(found)
    assert "`weight_decay` of the optimizer is 0 in A and 0.5 in B" in str(found)
    assert "backsight run --trace steps=2,3" in str(found)
    assert found.to_dict()["agreement"]["beyond"]["step"] == 3


def test_equal_trainings_say_which_steps_were_compared_by_operation(summed):
    (_, a), (_, b) = (summed(name, trace=(0, 3)) for name in "ab")
    told = str(bs.diff(a, b))
    assert "no difference in 5 steps: gradients and weights agree to the last bit, " in told
    assert "and so do all operations of steps 0 and 3\n" in told


def test_a_training_that_ended_earlier_is_said_to(summed):
    _, a = summed("a")
    _, b = summed("b", steps=4)
    assert "A ended after 5 steps, and B after 4 steps" in bs.diff(a, b).notes


SMALL = """\
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(6, 4)
for _ in range(3):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""


@pytest.fixture
def forking(monkeypatch):
    """Have the programs that are run again and again forked; by commands they are in `tests/launch/test_tracing.py`."""

    class Forking:
        @staticmethod
        def call(command, stdout, env):
            return fresh.run(command, stdout=stdout.fileno(), stderr=sys.stderr.fileno(), env=env).returncode

    monkeypatch.setattr(twice, "subprocess", Forking)


@pytest.mark.usefixtures("forking")
@pytest.mark.parametrize("base", [[], ["other"]])
@pytest.mark.parametrize(
    ("what", "line", "said"),
    [
        ("eval", "backward(model(x[batch])", "Module model.2 is in training mode in A and in evaluation mode in B"),
        ("decay", "optimizer.step()", "`weight_decay` of the optimizer is 0 in A and 0.1 in B"),
    ],
)
def test_what_begins_later_is_traced_by_running_again(capfd, base, what, line, said):
    assert run_both([LATER], [LATER, *base, what], (0, 1)) == 1
    out = capfd.readouterr().out
    exact = "up to rounding" if base else "to the last bit"
    assert f"both agree {exact} in steps 0 to 5; they part at step 6: they compute different things" in out
    assert line in out.partition("note:")[0]
    assert said in " ".join(out.split())


@pytest.mark.usefixtures("forking")
def test_a_training_that_differs_by_rounding_in_every_step_is_said_to(capfd):
    assert run_both([LATER], [LATER, "other"], (0, 1)) == 0
    assert "differ only by rounding in 9 steps, from step 0 on" in capfd.readouterr().out


@pytest.mark.usefixtures("forking")
@pytest.mark.slow
def test_what_is_not_reproducible_later_is_named_in_itself(capfd):
    assert run_both([LATER], [LATER, "unseeded"], (0, 1)) == 1
    said = capfd.readouterr()
    assert "B is not reproducible: step 6 differs when it runs again" in said.err
    assert "order = torch.randperm(48, generator=unseeded)" in said.out
    assert run_twice([LATER, "unseeded"], (0, 1)) == 1
    assert "both agree to the last bit in steps 0 to 5; they part at step 6" in capfd.readouterr().out


@pytest.mark.usefixtures("forking")
def test_a_training_that_is_reproducible_and_one_that_is_not(tmp_path, capfd):
    script = tmp_path / "train.py"
    script.write_text(SMALL)
    assert run_twice([str(script)], (0, 1)) == 0
    script.write_text(SMALL.replace("torch.manual_seed(0)", "torch.seed()"))
    assert run_twice([str(script)], (0, 1)) == 1
    assert "BS504" in capfd.readouterr().out


@pytest.mark.usefixtures("forking")
def test_a_draw_of_pythons_own_generator_is_told_as_that(tmp_path, capfd):
    script = tmp_path / "train.py"
    script.write_text(SMALL.replace("x = torch.randn(6, 4)", "x = torch.randn(6, 4) * __import__('random').random()"))
    run_twice([str(script)], (0, 1))
    out = capfd.readouterr().out
    assert "The state of Python's random generator differs" in out
    assert "hash seed" not in out


def test_the_command_says_of_folders_that_a_later_step_differs(tmp_path):
    for name, words in (("a", []), ("b", ["decay"])):
        asked = ["run", "--quiet", "--watch", "calls", "--trace", "steps=0", "--into", str(tmp_path / name), LATER]
        fresh.run([sys.executable, "-m", "backsight", *asked, *words], check=True)
    done = fresh.run([sys.executable, "-m", "backsight", "diff", "a", "b"], cwd=tmp_path)
    assert done.returncode == 1
    assert "they part at step 6, which is not traced" in done.stdout
