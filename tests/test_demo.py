"""`backsight demo`: which commands it runs, and what its exit status says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from backsight import demo


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[list[list[str]], dict[str, int]]:
    """The commands that the demo runs, and by a word of a command the exit status that it has; 0 for all others."""
    commands: list[list[str]] = []
    status = {"01_second_backward_rnn.py": 1}

    def call(command: list[str], cwd: str | None = None) -> int:
        assert command[:3] == [sys.executable, "-m", "backsight"]
        commands.append([Path(word).name for word in command[3:]])
        return next((code for word, code in status.items() if word in commands[-1]), 0)

    monkeypatch.setattr(demo.subprocess, "call", call)
    monkeypatch.setattr(demo.tempfile, "mkdtemp", lambda prefix: str(tmp_path))
    monkeypatch.setattr(demo, "find_spec", lambda name: object())
    return commands, status


def test_three_scripts_are_run_and_the_first_is_recorded_and_shown(ran, capsys, tmp_path):
    assert demo.show(open_browser=False) == 0
    assert ran[0] == [
        ["run", "digits.py"],
        ["run", "01_second_backward_rnn.py"],
        ["run", "18_forgotten_leaf.py"],
        ["run", "--quiet", "--record", "--run", "digits", "digits.py"],
        ["runs", "show", "digits"],
    ]
    said = capsys.readouterr().out
    assert "exit status 1" in said and "4 of 4" in said
    assert f"backsight view {tmp_path}/digits" in said.replace("\n", "")


@pytest.mark.parametrize("word", ["digits.py", "01_second_backward_rnn.py", "18_forgotten_leaf.py", "show"])
def test_an_act_that_does_not_end_as_it_should_is_the_exit_status(ran, word):
    ran[1][word] = 3
    assert demo.show(open_browser=False) == 1


def test_the_browser_is_opened_where_that_is_asked_for(ran):
    demo.show(open_browser=True)
    assert ran[0][-1] == ["view", "--open", "digits"]


def test_without_data_the_healthy_script_is_left_out(ran, monkeypatch, capsys):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    assert demo.show(open_browser=False) == 0
    assert [command[-1] for command in ran[0]] == ["01_second_backward_rnn.py", "18_forgotten_leaf.py"]
    assert "pip install scikit-learn" in capsys.readouterr().out


@pytest.mark.parametrize("script", [script for script, *_ in demo.ACTS])
def test_each_script_is_there(script):
    assert (demo.HERE / script).is_file()
