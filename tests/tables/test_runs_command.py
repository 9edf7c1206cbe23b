"""`backsight runs`: recordings listed, and shown by module."""

from __future__ import annotations

import math
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from shown import Command, Net, line_of, record
from torch import nn

import backsight as bs
from backsight.runs import STATISTICS, RunWriter

# ---- the list


def test_runs_are_listed_with_their_facts(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py"])
    record(tmp_path / "runs" / "first", nn.Linear(4, 1))
    record(tmp_path / "runs" / "deep" / "second", Net(), steps=3)
    ended = command()
    assert ended.returncode == 0 and ended.stderr == ""
    heading, first, second, _, advice, line = ended.stdout.splitlines()
    assert heading.split() == ["run", "started", "steps", "tensors", "last", "loss", "size", "state"]
    assert re.fullmatch(r"first +\d{4}-\d\d-\d\d \d\d:\d\d +12 +6 +[\d.]+ +[\d.]+ KB +finished", first)
    assert second.startswith("deep/second ") and second.split()[3] == "3"
    assert (advice, line) == ("look at one:", "  backsight runs show runs/deep/second")


def test_runs_are_told_apart_by_their_arguments_and_their_last_loss(command: Command, tmp_path: Path) -> None:
    for name, words, losses in (
        ("slow", ["--lr", "1e-3", "--note", "a b"], (3.0, 2.5)),
        ("fast", ["--lr", "1"], (3.0, math.nan)),
    ):
        with RunWriter(tmp_path / "runs" / name, environment={"arguments": words}) as writer:
            number = writer.tensor("t", "weight", "m", (1,), "float32")
            for step, loss in enumerate(losses):
                writer.append(step, [number], np.ones(1, STATISTICS))
                writer.mark(step, loss=loss)
    heading, *lines = command(columns=130).stdout.splitlines()
    assert re.fullmatch(r"run +started +arguments +steps +tensors +last loss +size +state", heading)
    assert re.search(r"\d  --lr 1e-3 --note 'a b' +2 +1 +2\.500 ", line_of("\n".join(lines), "slow "))
    assert re.search(r"\d  --lr 1 +2 +1 +nan ", line_of("\n".join(lines), "fast "))
    heading, row, *_ = command(columns=50).stdout.splitlines()
    assert re.fullmatch(r"run +arguments +steps +last loss +state", heading)
    assert len(row) <= 50 and "…" in row and row.endswith("2.500  finished")


def test_losses_in_a_column_have_the_same_number_of_digits(command: Command, tmp_path: Path) -> None:
    for name, loss in (("n1", -7.7921), ("n2", -4.41), ("n3", 0.676), ("n4", 1234.0), ("n5", 3e-9)):
        with RunWriter(tmp_path / "runs" / name) as writer:
            writer.append(0, [writer.tensor("t", "weight", "m", (1,), "float32")], np.ones(1, STATISTICS))
            writer.mark(0, loss=loss)
    said = command(columns=130).stdout
    found = [line_of(said, f"n{k} ").split()[5] for k in range(1, 6)]
    assert found == ["-7.792", "-4.410", "0.6760", "1234", "3e-09"]


def test_names_of_runs_too_long_for_their_columns_are_headed_by_what_tells_them_apart(
    command: Command, tmp_path: Path
) -> None:
    names = [f"2026-11-27-09-5{k}-02-denoise" for k in range(3)]
    for k, name in enumerate(names):
        with RunWriter(tmp_path / "runs" / name, environment={"arguments": ["--lr", str(k)]}) as writer:
            writer.append(0, [writer.tensor("t", "weight", "m", (1,), "float32")], np.ones(1, STATISTICS))
            writer.mark(0, loss=1.0)
    narrow, wide = (command("show", *names, columns=columns).stdout for columns in (80, 160))
    assert narrow.splitlines()[0].split()[-3:] == ["…50-02-denoise", "…51-02-denoise", "…52-02-denoise"]
    assert wide.splitlines()[0].split()[-3:] == names


def test_of_what_was_recorded_in_part_it_is_told_how_many_steps_there_were(command: Command, tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.record(model, optimizer, run=tmp_path / "runs" / "some", every=3):
        for _ in range(10):
            model(torch.ones(2, 4)).mean().backward()
            optimizer.step()
    assert " 4 of 10 " in line_of(command().stdout, "some ")
    assert ", 4 of 10 steps, " in command("show").stdout
    assert command("audit", "some").stdout.startswith("backsight: nothing found in 4 recorded steps of ")
    named, said = command("audit").stdout.splitlines()
    assert named == "runs/some:", "nobody has typed which it is"
    assert said.startswith("backsight: nothing found in 4 recorded steps of ")


def test_a_run_is_shown_with_the_first_last_and_lowest_loss(command: Command, tmp_path: Path) -> None:
    with RunWriter(tmp_path / "runs" / "first") as writer:
        number = writer.tensor("t", "weight", "m", (1,), "float32")
        for step, loss in enumerate((3.0, 0.5, 1.25, math.nan)):
            writer.append(step, [number], np.ones(1, STATISTICS))
            writer.mark(step, loss=loss)
    said = command("show").stdout
    assert line_of(said, "loss:") == "loss: 3 at step 0, nan at step 3, lowest 0.5 at step 1"
    assert said.splitlines()[1] == "step 3", "its loss is said once"
    assert command("show", "--step", "2").stdout.splitlines()[1] == "step 2 of 3, loss 1.25"


def test_a_run_that_was_killed_is_silent_and_one_that_is_written_is_recording(command: Command, tmp_path: Path) -> None:
    row = np.zeros(1, STATISTICS)
    for name in ("killed", "written"):
        writer = RunWriter(tmp_path / "runs" / name)
        writer.append(0, [writer.tensor("t", "weight", "m", (1,), "float32")], row)
        writer.flush()
    for path in (tmp_path / "runs" / "killed").rglob("*"):
        os.utime(path, (0, 0))
    said = command().stdout
    assert re.search(r"\bsilent \d+ d\b", line_of(said, "killed "))
    assert "recording" in line_of(said, "written  ")
    assert "silent: not closed" in said


def test_of_a_run_without_steps_nobody_knows_whether_it_has_ended(command: Command, tmp_path: Path) -> None:
    RunWriter(tmp_path / "runs" / "begun").event("order", step=None)
    assert re.search(r" no steps$", line_of(command().stdout, "begun "))


def test_damage_and_missing_ranks_are_told(command: Command, tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "runs" / "hurt", rank=1, world=4)
    writer.append(0, [writer.tensor("t", "weight", "m", (1,), "float32")], np.zeros(1, STATISTICS))
    writer.mark(0, epoch=1)
    writer.close()
    marks = tmp_path / "runs" / "hurt" / "rank-00001" / "marks.jsonl"
    marks.write_bytes(marks.read_bytes().replace(b"epoch", b"epoxy"))
    tensors = tmp_path / "runs" / "hurt" / "rank-00001" / "tensors.jsonl"
    tensors.write_bytes(tensors.read_bytes().replace(b"float32", b"float33"))
    said = command().stdout
    assert "1 of 4" in line_of(said, "hurt ") and "2 lines" in line_of(said, "hurt ")


def test_a_run_that_cannot_be_read_is_a_line_beside_the_others(command: Command, runs: Path) -> None:
    (runs / "broken" / "rank-00000").mkdir(parents=True)
    (runs / "broken" / "rank-00000" / "manifest.json").write_text("{}")
    record(runs / "whole", nn.Linear(4, 1), steps=1)
    ended = command()
    assert ended.returncode == 0 and "whole" in ended.stdout
    assert line_of(ended.stdout, "broken", "unreadable", "all of it")
    assert "manifest.json is damaged" in line_of(ended.stdout, "unreadable: ")


def test_an_empty_folder_and_none_at_all_tell_how_to_record(command: Command, tmp_path: Path) -> None:
    ended = command()
    assert ended.returncode == 2
    assert ended.stderr == "backsight: there is no folder runs. Record one: backsight run --record train.py\n"
    (tmp_path / "runs").mkdir()
    ended = command()
    assert ended.returncode == 0
    assert ended.stdout == "There is no run in runs. Record one: backsight run --record train.py\n"


# ---- one step by module


def test_the_latest_step_is_shown_by_module_in_the_order_of_the_tree(command: Command, runs: Path) -> None:
    said = command("show", "first").stdout
    modules = re.findall(r"^[!✗ ]? +(\w+)  (Net|Linear|Sequential|ReLU)", said, re.MULTILINE)
    assert [name for name, _ in modules] == ["model", "first", "dead", "0", "1", "last", "unused"]
    assert "12 steps" in said.splitlines()[0]
    assert said.splitlines()[1] == "step 11, epoch 2"


def test_rows_hold_the_numbers_of_the_run(command: Command, runs: Path) -> None:
    weight = bs.open_run(runs / "first").frame(tensor="last.weight", kind="weight", steps=11, as_="numpy")
    at = command("show", "first").stdout.splitlines()
    cells = next(line for line in at[at.index(next(row for row in at if "last  Linear" in row)) + 1 :]).split()
    assert cells[0] == "weight" and cells[1] == "1×8"
    assert [float(cell) for cell in cells[2:5]] == pytest.approx(
        [float(weight[stat][0]) for stat in ("mean", "std", "l2")], rel=1e-2
    )
    assert re.fullmatch(r"[▁▂▃▄▅▆▇█]{12}", cells[5])


def test_what_is_wrong_is_marked_and_said(command: Command, runs: Path) -> None:
    said = command("show", "first").stdout
    assert line_of(said, "1  ReLU").startswith("!")
    assert line_of(said, "first  Linear").startswith(" ")
    assert "dead.1.output" in line_of(said, "all zero in all 12 steps")
    assert line_of(said, "has not moved in 11 recorded steps").endswith(
        ": dead.0.weight, dead.0.bias, unused.weight, unused.bias"
    )
    assert said.splitlines()[-2:] == ["next: what it means and how to fix it:", "  backsight runs audit runs/first"]


def test_frozen_weights_are_not_said_to_be_stuck(command: Command, tmp_path: Path) -> None:
    model = Net()
    model.unused.requires_grad_(False)
    record(tmp_path / "run", model)
    assert "unused" not in line_of(command("show", "run").stdout, "has not moved")


def test_what_is_not_finite_is_told_with_its_beginning(command: Command, tmp_path: Path) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with bs.record(model, optimizer, run=tmp_path / "run"):
        for step in range(6):
            x = torch.full((2, 4), float("nan") if step == 3 else 1.0)
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    said = command("show", "run").stdout
    assert line_of(said, "not finite first").startswith("not finite first: input x at step 3: 8 NaN")
    assert line_of(said, "next:") == "next: the step where it started:"
    assert said.splitlines()[-1] == "  backsight runs show run --step 3 --kind input,output,weight,grad"
    assert line_of(said, "last  Linear").startswith("✗")
    assert "output" in line_of(said, "not finite since step 3: ")


def test_a_healthy_training_has_no_marks(command: Command, tmp_path: Path) -> None:
    record(tmp_path / "run", nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))
    said = command("show", "run").stdout
    assert not re.search(r"^[!✗]", said, re.MULTILINE)
    assert "all zero" not in said and "not moved" not in said


@pytest.mark.parametrize(("every", "steps"), [(1, "3 steps"), (3, "1 of 3 steps")])
def test_evaluation_after_the_last_step_is_not_what_is_shown(
    every: int, steps: str, command: Command, tmp_path: Path
) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with bs.record(model, optimizer, run=tmp_path / "run", every=every):
        for _ in range(3):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        with torch.no_grad():
            model(torch.ones(2, 4))
    said = command("show", "run").stdout
    last = 3 - every
    assert f", {steps}, " in said.splitlines()[0]
    assert said.splitlines()[1] == f"step {last}, the last of the training; step 3 is an evaluation after it"
    assert "grad" in said and "(eval)" not in said


@pytest.fixture
def evaluated(tmp_path: Path) -> Path:
    """A run of five steps, evaluated in step 1 and in step 3."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with bs.record(model, optimizer, run=tmp_path / "run"):
        for step in range(5):
            if step in (1, 3):
                with torch.no_grad():
                    model.eval()(torch.ones(2, 4))
            model.train()(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    return tmp_path / "run"


@pytest.mark.parametrize("kind", ["eval_output", "eval_input", "eval_input,eval_output"])
def test_a_kind_that_the_latest_step_has_not_is_shown_in_the_newest_that_has(
    command: Command, evaluated: Path, kind: str
) -> None:
    ended = command("show", "run", "--kind", kind)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines()[1] == "step 3 of 4" and "(eval)" in ended.stdout


def test_a_kind_that_the_chosen_step_has_not_is_said_in_a_line(command: Command, evaluated: Path) -> None:
    ended = command("show", "run", "--kind", "eval_output", "--step", "2")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "backsight: step 2 holds no eval_output; the newest step that does is 3.\n"


def test_what_is_called_several_times_is_explained_below(command: Command, tmp_path: Path) -> None:
    layer = nn.Linear(4, 4)
    record(tmp_path / "run", nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), layer))
    said = command("show", "run").stdout
    assert line_of(said, "×3:") == "×3: called three times in the step; the last call is shown"
    assert "output ×3" in said


def test_what_is_called_once_needs_no_explanation(command: Command, runs: Path) -> None:
    assert "the last call is shown" not in command("show", "first").stdout


def test_kinds_that_are_not_shown_are_named_with_the_option(command: Command, runs: Path) -> None:
    assert line_of(command("show", "first").stdout, "not shown: ").endswith("input (--kind KIND shows them)")


def test_many_modules_alike_are_folded_and_unfolded(command: Command, tmp_path: Path) -> None:
    layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(16)]
    record(tmp_path / "run", nn.Sequential(*layers, nn.Linear(4, 1)))
    said = command("show", "run").stdout
    assert "1 … 14  14 alike" in said
    assert "backsight runs show run --all" in said.splitlines()[-1]
    whole = command("show", "run", "--all").stdout
    assert "alike" not in whole and whole.count("Sequential") == 17


def test_a_problem_is_not_folded_away(command: Command, tmp_path: Path) -> None:
    layers = [nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(16)]
    model = nn.ModuleList([*layers])

    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.last = model, nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.last(sum(layer(x) for layer in self.layers))
            return out

    nn.init.constant_(layers[7][0].bias, -100.0)
    record(tmp_path / "run", Sum())
    said = command("show", "run").stdout
    assert "1 … 5  5 alike" in said and "9 … 14  6 alike" in said
    assert re.search(r"^! +7  Sequential", said, re.MULTILINE)


def test_step_kind_and_stat_are_chosen(command: Command, runs: Path) -> None:
    said = command("show", "first", "--step", "4", "--kind", "grad,weight", "--kind", "input", "--stat", "absmax,zeros")
    assert said.stdout.splitlines()[1].startswith("step 4 of 11")
    assert re.search(r"tensor +shape +abs max +zeros +abs max, 0–4\n", said.stdout)
    assert re.search(r"last  Linear +input", said.stdout)
    assert not re.search(r"\boutput\b", said.stdout.split("\n\n")[1])


def test_without_a_name_it_is_the_newest_run(command: Command, tmp_path: Path) -> None:
    record(tmp_path / "runs" / "older", nn.Linear(4, 1))
    record(tmp_path / "runs" / "newer", nn.Linear(4, 1))
    assert command("show").stdout.startswith("runs/newer ")


def test_the_beginning_of_a_name_is_enough_if_only_one_run_begins_so(command: Command, tmp_path: Path) -> None:
    for name in ("2026-01-31-train", "2026-02-01-train", "2026-02-01-train-2"):
        record(tmp_path / "runs" / name, nn.Linear(4, 1), steps=1)
    assert command("show", "2026-01").stdout.startswith("runs/2026-01-31-train ")
    assert command("show", "runs/2026-01").stdout.startswith("runs/2026-01-31-train ")
    assert command("show", "2026-02-01-train").stdout.startswith("runs/2026-02-01-train ")
    ended = command("show", "2026-02")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.splitlines() == [
        "backsight: '2026-02' is ambiguous: it matches 2 runs:",
        "  runs/2026-02-01-train",
        "  runs/2026-02-01-train-2",
    ]
