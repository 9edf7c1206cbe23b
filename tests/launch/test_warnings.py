"""`backsight run` and PyTorch's warnings about autograd: explained below the warning, the program as it is."""

import pytest

SOURCE = """
import torch

w = torch.ones(3, requires_grad=True)
hidden = w * 2
hidden.sum().backward()
print(hidden.grad)
"""


@pytest.mark.process
def test_a_warning_is_explained_below_it(bench):
    bench.write("train.py", SOURCE)
    ended, plain = bench.observed("train.py"), bench.forked.python("train.py")
    assert (ended.status, ended.out) == (plain.status, plain.out) == (0, "None\n")
    warned, _, said = ended.err.partition("\nbacksight explains\n")
    assert warned == plain.err
    assert "warning BS216  hidden.grad is None: hidden is a non-leaf tensor" in said
    assert "nothing found" not in said


def test_with_warnings_off_nothing_is_said(bench):
    bench.write("train.py", SOURCE)
    ended = bench.observed("train.py", flags=("-W", "ignore"))
    assert "BS216" not in ended.err


def test_a_warning_that_is_an_error_is_explained_as_one(bench):
    bench.write("train.py", SOURCE)
    ended = bench.observed("train.py", flags=("-W", "error::UserWarning"))
    assert ended.status == 1
    assert "warning BS216  hidden.grad is None" in ended.err.partition("\nbacksight explains\n")[2]


@pytest.mark.process
def test_the_program_s_own_way_to_show_warnings_is_kept(bench):
    shown = "import warnings\nwarnings.showwarning = lambda *given, **named: print('mine')\n"
    bench.write("train.py", shown + SOURCE)
    assert bench.observed("train.py").out == "mine\nNone\n"
    bench.write("train.py", SOURCE.replace("import torch\n", f"import torch\n{shown}"))
    assert bench.forked.observed("train.py").out == "mine\nNone\n"


def test_an_error_that_follows_from_a_warning_refers_to_it(bench):
    bench.write("train.py", SOURCE.replace("print(hidden.grad)", "print(hidden.grad.norm())"))
    said = bench.observed("train.py").err
    assert said.count("hidden is a non-leaf tensor") == 1
    assert "error BS213  hidden.grad is None: the warning BS216 above says why." in said
    assert said.count("  fix: ") == 2, "a fix is repeated, since the error is read first"
    said = bench.observed("train.py", flags=("-W", "ignore")).err
    assert "error BS213  hidden.grad is None: hidden is a non-leaf tensor" in said


ANOMALY = """
import torch

torch.autograd.set_detect_anomaly(True)
layer = torch.nn.Linear(3, 1, bias=False)


def length(x):
    return torch.sqrt(layer(x).pow(2)).sum()


loss = length(torch.zeros(2, 3)) + 1
loss.backward()
"""


@pytest.mark.process
def test_the_stack_of_anomaly_mode_has_none_of_our_functions(bench):
    bench.write("train.py", ANOMALY)
    ended, plain = bench.observed("train.py"), bench.forked.python("train.py")
    stacks = [said.err.partition("Traceback (most recent")[0].partition('  File "')[2] for said in (ended, plain)]
    assert stacks[0].partition('"')[0].endswith("train.py")
    assert "in length\n" in stacks[0]
    assert stacks[0].partition("train.py")[2] == stacks[1].partition("train.py")[2]
