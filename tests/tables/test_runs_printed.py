"""Where `backsight runs` prints: narrow and wide, terminals and files, any encoding, any name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import terminal
from shown import Command, environment

from backsight.runs import STATISTICS, RunWriter, open_run
from backsight.tables import show_run


@pytest.mark.parametrize("columns", [40, 80, 100, 132, 200])
def test_nothing_is_wider_than_the_terminal_and_no_number_is_cut(command: Command, runs: Path, columns: int) -> None:
    said = command("show", "first", columns=columns).stdout
    widest = max(map(len, said.splitlines()))
    assert widest <= max(columns, 80)
    table = said.split("\n\n")[1]
    assert not re.search(r"\d…", table)


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A folder with a run of 1,234 steps."""
    writer = RunWriter(tmp_path / "runs" / "2026-11-21-10-19-30-train")
    number = writer.tensor("t", "weight", None, (1,), "float32")
    for step in range(1234):
        writer.append(step, [number], np.ones(1, STATISTICS))
    writer.close()
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((3, 3), None),
        ((3, 2), "ranks are at different steps: rank 1 ended at step 1, rank 0 at step 2"),
        ((0, 3), "ranks are at different steps: rank 0 recorded no step, rank 1 at step 2"),
    ],
)
def test_a_rank_that_ended_before_the_others_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: tuple[int, ...], said: str | None
) -> None:
    for rank, count in enumerate(steps):
        with RunWriter(tmp_path / "run", rank=rank, world=2) as writer:
            number = writer.tensor("t", "weight", None, (1,), "float32")
            for step in range(count):
                writer.append(step, [number], np.ones(1, STATISTICS))
    assert open_run(tmp_path / "run").last_steps == {k: count - 1 if count else None for k, count in enumerate(steps)}
    assert show_run(str(tmp_path / "run")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("ranks are at")] == ([said] if said else [])


@pytest.mark.parametrize(
    ("columns", "headings"),
    [
        (120, "run started steps tensors size state"),
        (80, "run started steps tensors size state"),
        (72, "run started steps tensors state"),
        (60, "run steps tensors state"),
        (40, "run steps state"),
    ],
)
def test_a_narrow_list_has_fewer_columns_and_cuts_none(
    command: Command, listed: Path, columns: int, headings: str
) -> None:
    heading, row, *_ = command(columns=columns).stdout.splitlines()
    assert heading.split() == headings.split() and max(len(heading), len(row)) <= columns
    assert " 1,234 " in row and row.endswith("finished")
    assert row.startswith("2026-11-21-10-19-30-train " if columns > 40 else "2026-11-21-")


def test_damage_is_told_however_narrow_the_list_is(command: Command, listed: Path) -> None:
    tensors = next(listed.rglob("tensors.jsonl"))
    tensors.write_bytes(tensors.read_bytes().replace(b"float32", b"float33"))
    heading, row, *_ = command(columns=60).stdout.splitlines()
    assert heading.split() == ["run", "steps", "tensors", "state", "damage"] and row.endswith("1 line")


def test_commands_stand_on_a_line_of_their_own_however_narrow(command: Command, tmp_path: Path) -> None:
    name = "a-name-that-is-longer-than-the-terminal-is-wide"
    writer = RunWriter(tmp_path / "runs" / name)
    writer.append(0, [writer.tensor("t", "weight", None, (1,), "float32")], np.ones(1, STATISTICS))
    writer.close()
    assert command(columns=40).stdout.splitlines()[-1] == f"  backsight runs show runs/{name}"
    last = command("show", columns=40).stdout.splitlines()[-1]
    assert last == f"  backsight runs show runs/{name} --step 0 --kind input,weight,state"


def test_a_wider_terminal_shows_more(command: Command, runs: Path) -> None:
    narrow, wide = (command("show", "first", columns=columns).stdout for columns in (80, 200))
    assert "shape" not in narrow.split("\n\n")[1] and "shape" in wide and "zero" in wide.split("\n\n")[1]


def test_in_a_file_there_is_no_colour_and_no_trailing_space(command: Command, runs: Path) -> None:
    for words in ([], ["show", "first"], ["audit", "first"]):
        said = command(*words).stdout
        assert said and "\x1b" not in said and not re.search(r" $", said, re.MULTILINE)


def test_on_a_terminal_there_is_colour(runs: Path) -> None:
    said = on_a_terminal(["show", "first"], runs.parent)
    assert "\x1b[" in said and "model" in said


def on_a_terminal(words: list[str], folder: Path) -> str:
    line = [sys.executable, "-m", "backsight", "runs", *words]
    status, said = terminal.written(line, cwd=folder, env=environment(TERM="xterm-256color"))
    assert status == 0
    return said


def test_an_output_without_utf8_gets_plain_characters(command: Command, runs: Path) -> None:
    said = command("show", "first", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert said.returncode == 0 and said.stdout.isascii()
    assert "1x8" in said.stdout and re.search(r"[_.\-=+*#@]{12}", said.stdout)


def test_names_with_anything_in_them_stay_in_their_line(command: Command, tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run")
    for name in ("a\nb", "\x1b[31mred", "[bold]x[/]", "ü" * 3, "x" * 300):
        number = writer.tensor(name, "weight", None, (1,), "float32")
        writer.append(0, [number], np.ones(1, STATISTICS))
    writer.close()
    said = command("show", "run").stdout
    assert "a\\nb" in said and "\\x1b[31mred" in said and "[bold]x[/]" in said and "\x1b" not in said


def test_a_reader_that_stops_reading_is_no_error(runs: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-m", "backsight", "runs", "show", "first"]
    ended = subprocess.run(line, cwd=runs.parent, env=environment(), stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert ended.stderr == ""


def test_a_long_name_of_a_tensor_gives_way_to_the_names_of_modules(command: Command, tmp_path: Path) -> None:
    modules = ["", "transformer", "transformer.layer", "transformer.layer.attention"]
    tree: dict[str, object] = {}
    for name in reversed(modules):
        tree = {"name": name, "type": "SelfAttentionModule", "parameters": [], "children": [tree] if tree else []}
    with RunWriter(tmp_path / "run") as writer:
        writer.tree([tree])
        ids = [writer.tensor(f"{name}.output.last_hidden_state".lstrip("."), "output", name) for name in modules]
        writer.append(0, ids, np.ones(len(ids), STATISTICS))
    said = command("show", "run", columns=80).stdout
    assert re.findall(r"^[ ✗!]+(\w+) ", said.split("\n\n")[1], re.MULTILINE) == [
        "module",
        "model",
        "transformer",
        "layer",
        "attention",
    ]
    assert max(map(len, said.split("\n\n")[1].splitlines())) <= 80
