"""Whoever writes what a fix says has a program that runs, and that trains."""

from __future__ import annotations

from pathlib import Path

import pytest
from accept import accepted
from edits import Program, edits_of
from scripts import ROOT, Script, scripts
from sharded import one_in
from tried import Advice, advice, tries

SECOND_FAULTS = {
    "devices/curves_for_a_plot": "a tensor without values stands for one on a GPU",
    "grad_none/norms_of_one_of_two_losses": "an alternative is for a loss that should train what it is detached from",
    "integers/codebook": "the codes are indices: to train them, which is one alternative, no fix makes sense",
    "no_grad/classes_scored_in_a_block": "of three cuts the classes stay one: which loss they should have is not known",
    "refused/rounded_under_jacrev": "it tells what a new method of the class does, and does not write it out",
    "scalar/energy_of_a_field": "the phase starts as zeros, where the gradient is 0",
    "second_backward/content_of_a_frozen_network": "the picture starts as what it is compared with",
    "views/hue_of_the_whole": "an alternative is for pictures that need no gradient, and these need one",
}
"""The programs in which a fix is right, and what the program does besides makes it fail; each with what that is."""


@pytest.mark.parametrize("name", one_in(8, [script.name for script in scripts()]))
def test_the_program_runs_and_trains_once_it_is_as_the_fix_says(name: str) -> None:
    script = Script(ROOT / f"{name}.py")
    given = dict.fromkeys(advice(accepted(script, watched)) for watched in (False, True))
    every = [each for one in given if one is not None for each in tries(script.path, one)]
    failed = [each for each in every if each.failed]
    if name in SECOND_FAULTS:
        assert len({each.said for each in failed}) == 1, f"take it off the list, or add why: {failed}"
    else:
        assert failed == []


def edited(source: str, fix: str, culprit: int = 1) -> list[str]:
    """A program as each alternative of a fix has it."""
    made = []
    for _, edits in edits_of(fix):
        program = Program(source, culprit)
        for edit in edits:
            edit(program)
        made.append(str(program))
    return made


def test_each_alternative_is_an_edit_of_its_own() -> None:
    fix = "On line 2, write `x = x.clone()`. Or put `x.add_(1)` above line 1, or remove line 2."
    assert edited("a = 1\nb = 2\n", fix) == ["a = 1\nx = x.clone()\n", "x.add_(1)\na = 1\nb = 2\n", "a = 1\n"]


def test_lines_keep_their_numbers_whatever_is_edited_before() -> None:
    fix = "Put `n = 0` above line 1, write `n = 2` on line 2 and put `n = 3` below line 2."
    assert edited("a\nb\nc\n", fix) == ["n = 0\na\nn = 2\nn = 3\nc\n"]


@pytest.mark.parametrize(
    ("source", "fix", "expected"),
    [
        ("with a:\n    b\n    c\nd\n", "Remove line 1, `with a:`, and dedent the lines inside it.", "b\nc\nd\n"),
        ("a\nfor b in c:\n    d\n", "Move line 1, `a`, inside the loop at line 2.", "for b in c:\n    a\n    d\n"),
        ("a\nb\nc\n", "Move line 1, `a`, below line 2, `b`, which needs it.", "b\na\nc\n"),
        ("a\nb\nc\n", "Put lines 1 and 2 inside `with d:`, as e does.", "with d:\n    a\n    b\nc\n"),
        (
            "for a in b:\n    a.c()\nd\n",
            "Write `e = [a.d() for a in b]` instead of lines 1 to 2.",
            "e = [a.d() for a in b]\nd\n",
        ),
        ("x.add_(1)\n", "Write x = x.add(1): that creates a new tensor.", "x = x.add(1)\n"),
        ("a = f(b, c)\n", "Write `f(b, c, d=False)`.", "a = f(b, c, d=False)\n"),
        ("@a\ndef f():\n    b\n", "Remove @a from f; it belongs elsewhere.", "def f():\n    b\n"),
        ("def f():\n    a = 1\n", "End f() with `return a`.", "def f():\n    a = 1\n    return a\n"),
        (
            "from torch import nn\na\n",
            "On line 2, write `b`. For that, put `import c` at the top.",
            "import c\nfrom torch import nn\nb\n",
        ),
    ],
)
def test_what_a_fix_says_is_done(source: str, fix: str, expected: str) -> None:
    assert edited(source, fix) == [expected]


@pytest.mark.parametrize(
    "fix", ["Look for a result that is computed once.", "Use the gradient in forward, or drop it."]
)
def test_prose_asks_for_no_edit(fix: str) -> None:
    assert not any(edits for _, edits in edits_of(fix))


FAILING = """import torch

w = torch.zeros(2, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
optimizer.step()
loss = w.sum().item()
loss.backward()
"""


@pytest.mark.parametrize(
    ("fix", "outcome"),
    [
        ("On line 6, write `loss = w.sum()`.", "trains nothing"),
        ("On line 6, write `loss = w.sum()`, and move line 5 below line 7.", "runs"),
        ("Remove line 1.", "other error"),
        ("Put `w = w` above line 1.", "other error"),
        ("Put `a = 1` below line 6.", "same error"),
        ("On line 6, write `loss = (`.", "does not fit"),
        ("Remove line 70.", "does not fit"),
        ("Keep the tensor.", "prose"),
    ],
)
def test_what_comes_of_it_is_told(fix: str, outcome: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(FAILING, encoding="utf-8")
    (found,) = tries(program, Advice(fix, program.name, 6))
    assert found.outcome == outcome, found


def test_an_accepted_text_is_read_with_the_line_that_it_is_about() -> None:
    golden = "error BS201  It fails.\n  a.py:2  x\n      is one.\n> b.py:3  y\n      is it.\n  fix: Write x\n  = 1.\n"
    assert advice(golden) == Advice("Write x = 1.", "b.py", 3)
    assert advice("Nothing is said.") is None
