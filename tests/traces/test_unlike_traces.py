"""Traces that have little in common: of other versions, lengths, programs, or of programs that ended early."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from test_hostile_traces import frames_of, written
from torch import nn
from trainings_traced import Net, Training

import backsight as bs


def rewritten(trace: bs.Trace, folder: Path, **head: object) -> Path:
    """Return a copy of a trace whose head says something else; None leaves out what it says."""
    frames = frames_of((Path(trace.path) / "0.trace").read_bytes())
    found = []
    for kind, payload in frames:
        if kind == b"H":
            said = {**json.loads(payload), **head}
            payload = json.dumps({key: value for key, value in said.items() if value is not None}).encode()
        found.append((kind, payload))
    folder.mkdir()
    return written(folder, found)


def told(a: object, b: object) -> bs.Difference:
    """Compare both ways, as text, JSON and page."""
    for difference in (bs.diff(b, a), bs.diff(a, b)):
        assert difference.text() and json.loads(difference.to_json()) and difference.html()
    return difference


def test_another_pytorch_is_said_and_the_operations_are_compared(traced, tmp_path):
    mine = traced()
    other = rewritten(mine, tmp_path / "other", torch="2.9.1+cu128")
    difference = told(other, mine)
    assert difference.cls == "same" and difference.steps[0].agree > 50
    assert f"PyTorch is 2.9.1+cu128 in A and {torch.__version__} in B" in difference.notes


@pytest.mark.parametrize("version", [None, 7, ["2", "9"], {"a": "b" * 1000}, ""])
def test_a_version_that_is_none_is_said_too(traced, tmp_path, version):
    mine = traced((0,))
    difference = told(rewritten(mine, tmp_path / "other", torch=version), mine)
    assert difference.cls == "same" and any(each.startswith("PyTorch is") for each in difference.notes)
    assert all(len(each) < 300 for each in difference.notes)


def test_an_operator_that_has_another_name_in_another_pytorch_is_no_difference(traced, tmp_path):
    mine = traced((0,))
    frames = frames_of((Path(mine.path) / "0.trace").read_bytes())
    renamed = [(kind, data.replace(b"aten.addmm.default", b"aten.addmm_v2.default")) for kind, data in frames]
    (tmp_path / "renamed").mkdir()
    difference = told(mine, written(tmp_path / "renamed", renamed))
    assert difference.cls in ("same", "noise"), difference.text()


def test_programs_without_a_common_module_say_so_and_what_can_still_be_said(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(4, 8)
    models = {
        "one": nn.ModuleDict({"encoder": nn.Linear(8, 3)}),
        "other": nn.ModuleDict({"conv": nn.Conv1d(1, 2, 3)}),
    }
    with bs.trace(tmp_path / "one", model=models["one"]) as trace:
        models["one"]["encoder"](x).sum().backward()
        trace.step()
    with bs.trace(tmp_path / "other", model=models["other"]) as trace:
        models["other"]["conv"](x[:, None]).relu().square().mean().backward()
        trace.step()
    difference = told(tmp_path / "one", tmp_path / "other")
    assert difference.cls == "semantics"
    assert "no module has the same name in both programs" in difference.notes


def test_a_program_that_ended_in_the_middle_of_a_step_is_compared_that_far(tmp_path):
    class Ends(nn.Module):
        def forward(self, x):
            raise RuntimeError("out of something")

    Training().run(1)  # what is made once
    with bs.trace(tmp_path / "whole", steps=(0, 1)):
        Training().run(2)
    torch.manual_seed(0)
    net = Net()
    net.head = nn.Sequential(net.head, Ends())
    with pytest.raises(RuntimeError, match="out of something"), bs.trace(tmp_path / "early", steps=(0, 1)):
        Training(model=net).run(2)
    difference = told(tmp_path / "whole", tmp_path / "early")
    assert difference.steps[0].agree > 5
    assert any("step 0 did not end" in each for each in difference.notes)
    assert any("ended before step 1 began" in each for each in difference.notes)
    assert any("only A has step 1" in each for each in difference.notes)


def test_traces_of_other_steps_say_which_each_has(traced):
    difference = told(traced((0, 1)), traced((2,)))
    assert difference.steps == ()
    assert "the traces have no step in common: A has step 0, 1 and B has step 2" in difference.notes


def test_a_trace_without_any_operation_is_compared(tmp_path, traced):
    with bs.trace(tmp_path / "empty") as trace:
        trace.step()
    difference = told(tmp_path / "empty", traced((0,)))
    assert difference.steps[0].agree == 0 and difference.steps[0].only_b > 50


def test_a_forward_pass_beside_a_whole_step(tmp_path, traced):
    training = Training()
    with bs.trace(tmp_path / "forward", model=training.model) as trace:
        training.model(training.x)
        trace.step()
    difference = told(tmp_path / "forward", traced((0,)))
    assert difference.steps[0].only_a == 0 and difference.steps[0].agree > 5
