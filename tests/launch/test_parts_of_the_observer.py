"""Each part of the observer is started by itself: one that cannot be takes no other with it, nor the explanation."""

from __future__ import annotations

import pytest

PROGRAM = """
import torch

w = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(2):
    loss = (w * w).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")
loss.backward()
"""

FAILS = """
import torch

w = torch.ones(2, requires_grad=True)
loss = (w * w).sum()
loss.backward()
loss.backward()
"""

BROKEN = """
import importlib
import sys

module, name, *command = sys.argv[1:]

class Fails:
    def __init__(self, *given, **named):
        raise RuntimeError("no such attribute")

setattr(importlib.import_module(module), name, Fails)
from backsight.cli import main

sys.exit(main(command))
"""

PARTS = {
    "not watching": ("backsight.launch.first_steps", "FirstSteps", ()),
    "errors that end a thread are not explained": ("backsight.launch.caught", "ThreadErrors", ()),
    "warnings are not explained": ("backsight.diagnosis.heeding", "Heeding", ()),
    "not looking for leaks": ("backsight.launch.leaks", "LeakWatch", ("--leaks",)),
    "not looking for NaN": ("backsight.launch.births", "BirthWatch", ("--nonfinite",)),
}


@pytest.mark.parametrize("lost", PARTS)
def test_a_part_that_cannot_be_started_is_told_once_and_the_error_is_explained(bench, lost):
    module, name, options = PARTS[lost]
    script, broken = bench.write("train.py", PROGRAM), bench.write("broken.py", BROKEN)
    ended = bench.python(str(broken), module, name, "run", *options, str(script))
    assert (ended.status, ended.out) == (1, "trained\n")
    assert ended.err.count(f"backsight: {lost}: RuntimeError: no such attribute\n") == 1
    assert ended.err.count("RuntimeError: no such attribute") == 1
    assert "backsight explains\n" in ended.err
    assert "error BS201  " in ended.err


@pytest.mark.process  # what PyTorch has is looked for as backsight is imported
@pytest.mark.needs()
@pytest.mark.slow
def test_what_this_pytorch_lacks_is_said_in_one_line_and_not_when_quiet(bench):
    script = bench.write("train.py", FAILS)
    lacking = bench.write(
        "lacking.py",
        "import sys\n"
        "import backsight.surface as surface\n"
        "reach = surface.reach\n"
        "surface.reach = lambda path: reach('nowhere' if path.endswith('_input_metadata') else path)\n"
        "from backsight.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n",
    )
    told = bench.python(str(lacking), "run", str(script))
    assert "error BS201  " in told.err
    line = told.err.splitlines()[-1]
    assert line.startswith("backsight: PyTorch ")
    assert " has no torch.autograd.Function._input_metadata: graphs do not show the shapes of results; " in line
    quiet = bench.python(str(lacking), "run", "--quiet", str(script))
    assert "error BS201  " in quiet.err
    assert "_input_metadata" not in quiet.err
