"""What stands behind `backsight: ` begins alike, in lower case, and names what was meant."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import backsight
import backsight.viewer.command as viewing
from backsight.cli import main
from backsight.runs import RunWriter

SAYING = {"complain", "say", "_refused", "_failed"}
"""Functions that print a text behind `backsight: `, and exceptions whose text they print."""
RAISED = {
    *("CannotForecast", "DamagedRun", "NewerRun", "NoCase", "NotARun", "NotAStep", "NotInRun", "NotInstalled"),
    *("NothingToVerify", "RunNotFound", "TargetNotFound", "TraceError"),
}
NAMES = ("PyTorch", "Python", "TensorBoard", "CUDA")


def begins(argument: ast.expr) -> str:
    """The fixed text that a message begins with."""
    first = argument.values[0] if isinstance(argument, ast.JoinedStr) else argument
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def messages() -> list[tuple[str, str]]:
    return [
        (f"{file.name}:{node.lineno}", begins(node.args[0]))
        for file in Path(backsight.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and node.args and getattr(node.func, "id", "") in SAYING | RAISED
    ]


def test_every_error_begins_in_lower_case():
    said = [(where, text.removeprefix("backsight: ")) for where, text in messages()]
    assert len(said) > 60
    assert [each for each in said if each[1][:1].isupper() and not each[1].startswith(NAMES)] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["verify", "trian.py"], "there is no file trian.py; did you mean 'train.py'?"),
        (["verify", "trian.py:Square"], "there is no file trian.py; did you mean 'train.py'?"),
        (["verify", "trian:Square"], "there is no module trian here or on Python's module path; did you mean 'train'?"),
        (["forecast", "trian.py:make"], "there is no file trian.py; did you mean 'train.py'?"),
        (["explain", "trian.py"], "there is no code and no file 'trian.py'; did you mean 'train.py'?"),
        (["diff", "trian.py", "train.py"], "there is no file trian.py; did you mean 'train.py'?"),
        (["diff", "train.py", "trian.py"], "there is no file trian.py; did you mean 'train.py'?"),
        (["run", "--twice", "trian.py"], "there is no file trian.py; did you mean 'train.py'?"),
        (["view", "rnus"], "there is no folder rnus; did you mean 'runs'?"),
        (["verify", "nothing.py"], "there is no file nothing.py."),
    ],
)
def test_a_mistyped_file_gets_the_one_that_was_meant(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("x = 1\n")
    (tmp_path / "runs").mkdir()
    assert main(words) == 2
    assert capsys.readouterr().err == f"backsight: {said}\n"


@pytest.mark.parametrize("words", [["view"], ["runs"]])
def test_where_nothing_is_recorded_every_command_says_how_to_record(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    said = "backsight: there is no folder runs. Record one: backsight run --record train.py\n"
    assert capsys.readouterr().err == said


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Two runs in ./runs, which hold no trace."""
    monkeypatch.chdir(tmp_path)
    for name in ("lr0.03", "2026-01-01-00-00-00-train"):
        RunWriter(tmp_path / "runs" / name).close()


@pytest.mark.parametrize("name", ["lr0.03", "lr", "2026", "train", "train.py"])
def test_view_finds_a_run_by_its_name(recorded, monkeypatch, name):
    served = []
    monkeypatch.setattr(viewing, "serve", lambda path, **_: served.append(path))
    assert main(["view", name]) == 0
    assert served == [Path("runs") / ("lr0.03" if "lr" in name else "2026-01-01-00-00-00-train")]


def test_diff_finds_runs_by_their_names(recorded, capsys):
    assert main(["diff", "lr0.03", "train"]) == 2
    shown, said = capsys.readouterr()
    assert "lr0.03" in shown.splitlines()[0] and "no settings differ" in shown
    assert said.startswith("backsight: runs/lr0.03 holds no trace.\n") and max(map(len, said.splitlines())) <= 79


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["view", "nosuch"], "there is no folder nosuch. Runs in ./runs: 2026-01-01-00-00-00-train, lr0.03."),
        (["runs", "nosuch"], "there is no folder nosuch. Runs in ./runs: 2026-01-01-00-00-00-train, lr0.03."),
        (["diff", "lr0.03", "lr0.O3"], "there is no trace at 'lr0.O3'; did you mean 'runs/lr0.03'? Pass the folders"),
    ],
)
def test_a_name_that_no_run_has_gets_those_that_there_are(recorded, capsys, words, said):
    try:
        status = main(words)
    except SystemExit as left:
        status = left.code
    assert status == 2
    assert said in capsys.readouterr().err
