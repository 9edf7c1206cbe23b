"""Whoever writes what a fix says has a program that runs, and that trains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from running import told
from scripts import ROOT, Script, scripts
from tried import tries

from backsight import Finding
from backsight.source import Place
from backsight.source.edits import Edit, lines_of, move, put, remove, write

SECOND_FAULTS = {
    "devices/curves_for_a_plot": "a tensor without values stands for one on a GPU",
    "gradient_assigned/units_cut_after_the_loss": "the layer behind still has an input for each unit that is cut",
    "grad_none/norms_of_one_of_two_losses": "an alternative is for a loss that should train what it is detached from",
    "integers/codebook": "the codes are indices: to train them, which is one alternative, no fix makes sense",
    "no_grad/class_activation_map": "an alternative trains the last layer alone, which lies behind the activation",
    "no_grad/unknown_task": "an alternative is for targets of another kind",
    "scalar/energy_of_a_field": "the phase starts as zeros, where the gradient is 0",
    "second_backward/content_of_a_frozen_network": "the picture starts as what it is compared with",
    "second_backward/regularized_in_the_second": "an alternative is for a loss that should train something besides",
}
"""The programs in which a fix is right, and what the program does besides makes it fail; each with what that is."""


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", [script.name for script in scripts()])
def test_the_program_runs_and_trains_once_it_is_as_the_fix_says(name: str) -> None:
    script = Script(ROOT / f"{name}.py")
    every = [told(script, watched).finding for watched in (False, True)]
    findings = {each.edits: each for each in every if each is not None}.values()
    failed = [each for finding in findings for each in tries(script.path, finding) if each.failed]
    if name in SECOND_FAULTS:
        assert len({each.said for each in failed}) == 1, f"take it off the list, or add why: {failed}"
    else:
        assert failed == []


FAILING = """import torch

w = torch.zeros(2, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
optimizer.step()
loss = w.sum().item()
loss.backward()
"""


def at(*lines: int) -> list[Place]:
    return lines_of("program.py", *lines)


@pytest.mark.parametrize(
    ("edits", "outcome"),
    [
        ([write(at(6), "loss = w.sum()")], "trains nothing"),
        ([write(at(6), "loss = w.sum()"), move(at(5), "below", at(7)[0])], "runs"),
        ([remove(at(1))], "other error"),
        ([put("w = w", "above", at(1)[0])], "other error"),
        ([put("a = 1", "below", at(6)[0])], "same error"),
        ([write(at(6), "loss = (")], "does not fit"),
        ([remove(at(70))], "does not fit"),
    ],
)
def test_what_comes_of_it_is_told(edits: list[Edit], outcome: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(FAILING, encoding="utf-8")
    alternative = tuple(replace(edit, file=str(program)) for edit in edits)
    (found,) = tries(program, Finding("BS203", "error", "It fails.", edits=(alternative,)))
    assert found.outcome == outcome, found
