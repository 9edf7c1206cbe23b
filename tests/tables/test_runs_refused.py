"""`backsight runs export` and `audit`, and what each command says where it cannot."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from shown import Command, Net, record

from backsight.runs import RunWriter
from backsight.runs.lines import opened, sealed


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_export_writes_one_file(command: Command, runs: Path, ending: str) -> None:
    ended = command("export", "first", f"rows.{ending}")
    assert ended.returncode == 0
    assert re.fullmatch(rf"rows\.{ending}: \d+ tensors, 12 steps, [\d.]+ [KM]B\n", ended.stdout)
    assert "last.weight" in (runs.parent / f"rows.{ending}").read_text()


def test_audit_prints_the_findings(command: Command, runs: Path) -> None:
    ended = command("audit", "first")
    assert ended.returncode == 0 and "BS3" in ended.stdout and "error BS" not in ended.stdout


def test_audit_exits_1_if_an_error_was_found_and_its_help_says_so(command: Command, tmp_path: Path) -> None:
    model = Net()
    torch.nn.init.constant_(model.last.bias, float("nan"))
    record(tmp_path / "run", model)
    ended = command("audit", "run")
    assert ended.returncode == 1 and "error BS3" in ended.stdout and ended.stderr == ""
    assert "1 if an error was found" in " ".join(command("audit", "--help").stdout.split())


def test_several_recordings_are_audited_each_below_its_name(command: Command, runs: Path, tmp_path: Path) -> None:
    model = Net()
    torch.nn.init.constant_(model.last.bias, float("nan"))
    record(tmp_path / "lost", model)
    ended = command("audit", "first", "lost")
    assert ended.returncode == 1 and ended.stderr == ""
    assert ended.stdout.startswith("runs/first:\n")
    first, lost = ended.stdout.split("\nlost:\n")
    assert "error BS3" not in first and "error BS3" in lost
    told = [json.loads(each)["run"] for each in command("audit", "lost", "first", "--json").stdout.splitlines()]
    assert told == sorted(told) and {*told} == {"lost", "runs/first"}


def test_of_several_recordings_one_that_is_not_there_is_said_first(command: Command, runs: Path) -> None:
    ended = command("audit", "first", "nowhere")
    assert (ended.returncode, ended.stdout) == (2, "") and "nowhere" in ended.stderr


def test_audit_prints_lines_of_json_for_tools(command: Command, runs: Path) -> None:
    text, lines = command("audit", "first").stdout, command("audit", "first", "--json").stdout
    told = [json.loads(line) for line in lines.splitlines()]
    assert [each["code"] for each in told] == re.findall(r"^\w+ (BS\d+) ", text, re.MULTILINE)
    assert {(each["backsight"], each["kind"], each["run"]) for each in told} == {(1, "finding", "runs/first")}


def test_a_run_may_be_named_by_its_script_and_is_then_the_newest(command: Command, tmp_path: Path) -> None:
    for name in ("2026-01-01-00-00-00-train", "2026-01-02-00-00-00-train", "2026-01-03-00-00-00-other"):
        record(tmp_path / "runs" / name, torch.nn.Linear(4, 1))
    (tmp_path / "train.py").write_text("")
    for typed in ("train", "train.py"):
        assert command("show", typed).stdout.startswith("runs/2026-01-02-00-00-00-train ")


def test_a_folder_that_was_mistyped_gets_the_one_that_was_meant(command: Command, tmp_path: Path) -> None:
    record(tmp_path / "runs" / "2026-01-01-00-00-00-train", torch.nn.Linear(4, 1))
    assert command("rusn").stderr == "backsight: there is no folder rusn; did you mean 'runs'?\n"
    meant = "backsight: there is no folder train; did you mean 'runs/2026-01-01-00-00-00-train'?\n"
    assert command("train").stderr == meant


def newer(folder: Path) -> None:
    RunWriter(folder).close()
    manifest = folder / "rank-00000" / "manifest.json"
    held = opened(manifest.read_bytes().rstrip(b"\n"))
    held.pop("crc", None)
    manifest.write_bytes(sealed({**held, "version": 2}))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "fist"], "there is no run at runs/fist; did you mean 'runs/first'?"),
        (["show", "nope"], "there is no run at runs/nope. Runs there: "),
        (["show", "other/fist"], "there is no run at other/fist."),
        (["show", "foreign"], "foreign is not a recording: backsight run --record and bs.record() write recordings."),
        (["show", "newer"], "has format 2, but this backsight reads up to 1. Upgrade it:"),
        (["show", "empty"], "empty holds no step yet."),
        (["show", "first", "--step", "99"], "the run has no step 99: it has 12, from 0 to 11, and 11 is the nearest."),
        (["show", "first", "--kind", "wieght"], "the run has no tensors of kind 'wieght'; it has"),
        (["show", "first", "--stat", "median"], "there is no statistic 'median'. Choose from"),
        (
            ["export", "first", "rows.xls"],
            ("A run can be exported to .csv, .jsonl, .parquet, but 'rows.xls' ends in '.xls'."),
        ),
        (["export", "first", "nowhere/rows.csv"], "No such file or directory"),
        (["audit", "fist"], "there is no run at runs/fist; did you mean 'runs/first'?"),
        (["nowhere"], "there is no folder nowhere. Runs in ./runs: "),
    ],
)
def test_what_cannot_be_is_said_in_a_line(command: Command, runs: Path, words: list[str], said: str) -> None:
    (runs.parent / "foreign").mkdir()
    newer(runs.parent / "newer")
    RunWriter(runs.parent / "empty").close()
    ended = command(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("backsight: ") and len(ended.stderr.splitlines()) == 1
    assert said in ended.stderr
