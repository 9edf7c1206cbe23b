"""What stands behind `backsight: ` begins alike, in lower case, and names what was meant."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import backsight
from backsight.cli import main

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
