"""The programs in examples/tutorial show what they claim."""

import os
import re
import sys
from pathlib import Path

import fresh
import pytest
import torch

TUTORIAL = Path(__file__).parents[2] / "examples" / "tutorial"

SAYS = {
    "01_saved_tensors.py": [
        "Log  keeps self   = 0.3750",
        "Mul  keeps other  = 0.6816",
        "0.1912 (Σ of 2)",
        "dw/dx1 1.3633, by hand 1.3633",
        "dw/dx2 0.1912, by hand 0.1912",
    ],
    "02_next_functions.py": [
        "MulBackward0\nAddBackward0\nPowBackward0\nAccumulateGrad",
        "MulBackward0 #0 <- AddBackward0 #1 <- PowBackward0 #2 <- x",
        "Mul: 1 * 3 = 3\nAdd: 3 * 1 = 3\nPow: 3 * 4 = 12\nx.grad is 12",
    ],
    "03_mean_squared_error.py": [
        "Mean  1×8 dense",
        "Pow   8×8 diagonal",
        "Sub   8×8 identity",
        "Mm    8×6 sparse",
        "walked    equals weight.grad: True\ntensordot equals weight.grad: True\npermuted  equals weight.grad: True",
    ],
    "04_non_leaf_gradients.py": [
        "arrives at hidden: [4.0, 4.0, 4.0]",
        "hidden is a leaf: False, hidden.grad None",
        "after retain_grad: hidden.grad [4.0, 4.0, 4.0]",
    ],
    "05_without_gradients.py": [
        "x * w               reaches ['x', 'w']",
        "x.detach() * w      reaches ['w']",
        "x needs no gradient: reaches ['w']",
        "inside no_grad      reaches []\n@torch.no_grad()    reaches []\n@torch.no_grad      reaches []",
        "same values: True",
    ],
    "06_zeroing_gradients.py": [],
}


def run(name, *arguments):
    environment = {**os.environ, "MPLBACKEND": "agg", "PYTHONIOENCODING": "utf-8"}
    words = [sys.executable, str(TUTORIAL / name), *arguments]
    done = fresh.run(words, timeout=120, env=environment, torn_down=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", SAYS)
def test_the_program_shows_what_it_claims(name):
    said = run(name)
    assert [text for text in SAYS[name] if text not in said] == []


def test_without_zeroing_the_loss_does_not_come_down():
    zeroed, never = run("06_zeroing_gradients.py").splitlines()
    first, most, last = zip(*(map(float, re.findall(r"\d+\.\d+", line)) for line in (zeroed, never)), strict=True)
    assert first[0] == first[1]
    assert last[0] < first[0] / 5 and most[0] < 2 * first[0]
    assert last[1] > first[1] / 2 and most[1] > 2 * first[1]


def test_the_two_curves_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    run("06_zeroing_gradients.py", "--plot", str(tmp_path / "curves.png"))
    assert (tmp_path / "curves.png").stat().st_size > 5_000


def test_every_program_is_tested_and_listed():
    programs = {file.name for file in TUTORIAL.glob("*.py")}
    assert programs == set(SAYS)
    assert set(re.findall(r"^\| `(\w+\.py)`", (TUTORIAL / "README.md").read_text(), re.MULTILINE)) == programs


def test_no_grad_is_a_decorator_with_and_without_parentheses():
    x = torch.ones(2, requires_grad=True)
    for decorator in (torch.no_grad, torch.no_grad()):
        assert not decorator(lambda: x * 2)().requires_grad
