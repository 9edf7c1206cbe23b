"""`backsight demo`: which commands it runs, and that it only ends well if each act showed what it is there for."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import fresh
import numpy as np
import pytest

from backsight import demo
from backsight.runs import STATISTICS, RunWriter

AUDITED = {"kind": "message", "text": "nothing found", "steps": 360, "audits": 3}
HEALTHY, DIES, LEARNS_NOTHING = (act.script for act in demo.ACTS)


class Played:
    """What the commands of the demo do here: nothing but what a test wants."""

    def __init__(self) -> None:
        self.run = Path()
        """Where the recording was to be written."""
        self.commands: list[list[str]] = []
        self.status = {DIES: 1}
        """By a word of a command the exit status that it has; 0 for all others."""
        self.says = {HEALTHY: [AUDITED], DIES: [{"code": "BS201"}], LEARNS_NOTHING: [{"code": "BS101"}]}
        """By script the lines of JSON that `backsight run` writes of it."""
        self.records = 1
        """How many steps are recorded; None for no recording at all."""

    def call(self, command: list[str], cwd: str | None = None) -> int:
        assert command[:3] == [sys.executable, "-m", "backsight"]
        if "--json-to" in command:
            where = command.index("--json-to")
            lines = self.says[Path(command[-1]).name]
            Path(command[where + 1]).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
            del command[where : where + 2]
        if "--record" in command:
            self.run = Path(command[command.index("--run") + 1])
            if self.records is not None:
                self._record(self.records)
        self.commands.append([Path(word).name for word in command[3:]])
        return next((code for word, code in self.status.items() if word in self.commands[-1]), 0)

    def _record(self, steps: int) -> None:
        with RunWriter(self.run) as writer:
            weight = writer.tensor("weight", "weight", "", (1,), "float32")
            for step in range(steps):
                writer.append(step, [weight], np.zeros(1, STATISTICS))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Played:
    played = Played()
    monkeypatch.setattr(demo.subprocess, "call", played.call)
    monkeypatch.setattr(demo.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(demo, "find_spec", lambda name: object())
    return played


def test_three_scripts_are_run_and_the_first_is_recorded_and_shown(played, capsys):
    assert demo.show(open_browser=False) == 0
    assert played.commands == [
        ["run", "digits.py"],
        ["run", "01_second_backward_rnn.py"],
        ["run", "18_forgotten_leaf.py"],
        ["run", "--quiet", "--record", "--run", "digits", "digits.py"],
        ["runs", "show", "digits"],
    ]
    said, complaint = capsys.readouterr()
    assert "exit status 1" in said and "4 of 4" in said and complaint == ""
    assert f"backsight view {played.run}" in said.replace("\n", "")


@pytest.mark.parametrize(
    ("word", "wrong"),
    [
        (HEALTHY, "act 1: digits.py ended with exit status 3 instead of 0"),
        (HEALTHY, "act 4: `backsight run --record` ended with exit status 3 instead of 0"),
        (DIES, "act 2: 01_second_backward_rnn.py ended with exit status 3 instead of 1"),
        (LEARNS_NOTHING, "act 3: 18_forgotten_leaf.py ended with exit status 3 instead of 0"),
        ("show", "act 4: `backsight runs show` ended with exit status 3 instead of 0"),
    ],
)
def test_an_act_with_another_exit_status_fails_the_demo(played, capsys, word, wrong):
    played.status[word] = 3
    assert demo.show(open_browser=False) == 1
    assert wrong in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "says", "wrong"),
    [
        (HEALTHY, [], "act 1: backsight audited no loss of digits.py"),
        (HEALTHY, [AUDITED | {"audits": 0}], "act 1: backsight audited no loss of digits.py"),
        (HEALTHY, [AUDITED, {"code": "BS101"}], "act 1: backsight found BS101 in digits.py, which is not there"),
        (DIES, [], "act 2: backsight did not find BS201 in 01_second_backward_rnn.py"),
        (LEARNS_NOTHING, [AUDITED], "act 3: backsight did not find BS101 in 18_forgotten_leaf.py"),
    ],
)
def test_an_act_that_does_not_show_what_it_is_there_for_fails_the_demo(played, capsys, script, says, wrong):
    played.says[script] = says
    assert demo.show(open_browser=False) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "This demo did not show what it should:"
    assert f"  {wrong}" in said
    assert "`backsight doctor`" in said[-1]


@pytest.mark.parametrize(("steps", "wrong"), [(0, "no step of digits.py was recorded"), (None, "cannot be read")])
def test_a_recording_of_nothing_fails_the_demo(played, capsys, steps, wrong):
    played.records = steps
    assert demo.show(open_browser=False) == 1
    assert wrong in capsys.readouterr().err


def test_the_browser_is_opened_where_that_is_asked_for(played):
    demo.show(open_browser=True)
    assert played.commands[-1] == ["view", "--open", "digits"]


def test_no_browser_is_opened_where_an_act_failed(played):
    played.says[DIES] = []
    demo.show(open_browser=True)
    assert played.commands[-1] == ["runs", "show", "digits"]


LACKING = """
import runpy, sys
for name in ('sklearn', 'scipy', 'pandas', 'pyarrow', 'matplotlib', 'starlette', 'uvicorn'):
    sys.modules[name] = None
"""
"""A process in which nothing but what backsight itself needs can be imported."""

UNWATCHING = """
import runpy, sys
sys.modules["backsight.launch.first_steps"] = None
"""
"""One in which nothing is watched."""


def shown_in(kind: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Show the demo for true, each of its commands in a process of this kind; return its exit status."""
    program = f"{kind}sys.argv[0] = 'backsight'\nrunpy.run_module('backsight', run_name='__main__', alter_sys=True)"

    def call(command: list[str], cwd: str | None = None) -> int:
        assert command[:3] == [sys.executable, "-m", "backsight"]
        return fresh.run([sys.executable, "-c", program, *command[3:]], cwd=cwd, stdout=1, stderr=2).returncode

    monkeypatch.setattr(demo.subprocess, "call", call)
    return demo.show(open_browser=False)


@pytest.mark.slow
def test_the_demo_shows_its_acts_with_nothing_but_what_backsight_itself_needs(monkeypatch, tmp_path, capfd):
    """`make package` shows it in an environment that has nothing else."""
    monkeypatch.setattr(demo.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    assert shown_in(LACKING, monkeypatch) == 0
    said, complaint = capfd.readouterr()
    assert all(text in said + complaint for text in ("nothing found", "BS201", "BS101"))
    assert said.count("test accuracy") == 2 and "conv1" in said


@pytest.mark.slow
def test_a_backsight_that_cannot_watch_fails_the_demo(monkeypatch, capfd):
    """What takes the watch away must not look like a script in which nothing was found."""
    assert shown_in(UNWATCHING, monkeypatch) == 1
    said = capfd.readouterr().err
    assert "act 1: backsight audited no loss of digits.py" in said
    assert "act 3: backsight did not find BS101 in 18_forgotten_leaf.py" in said


@pytest.mark.parametrize("script", [act.script for act in demo.ACTS])
def test_each_script_is_there(script):
    assert (demo.HERE / script).is_file()
