"""`backsight fix` on programs that fail: what is tried, told and written."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fresh
import pytest

from backsight.fixing import fix
from backsight.fixing import trial as trials
from backsight.source.edits import lines_of, write

BROKEN = Path(__file__).parents[2] / "examples" / "broken"


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program runs in forks of a process that has imported torch."""

    def shown(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
        done = fresh.run([*command], env=dict(environment))
        sys.stderr.write(done.stdout + done.stderr)
        return done.returncode, ""

    def hidden(
        command: Sequence[str], environment: Mapping[str, str], printed: Path, seconds: float | None
    ) -> tuple[int | None, str]:
        done = fresh.run([*command], env=dict(environment))
        return done.returncode, done.stdout + done.stderr

    monkeypatch.setattr(trials, "_shown", shown)
    monkeypatch.setattr(trials, "_hidden", hidden)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def broken(name: str, folder: Path) -> Path:
    return Path(shutil.copy(BROKEN / name, folder / "train.py"))


def test_the_change_that_works_is_told_as_a_diff_that_git_takes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = broken("05_inplace_residual.py", folder)
    before = script.read_text(encoding="utf-8")
    assert fix(["train.py"]) == 0
    told = capsys.readouterr()
    assert script.read_text(encoding="utf-8") == before
    assert told.out.startswith("--- a/train.py\n+++ b/train.py\n@@ ")
    assert "runs to its end" in told.err and "With this change it runs, and nothing is found in it:" in told.err
    subprocess.run(["git", "apply"], input=told.out, text=True, check=True)
    assert script.read_text(encoding="utf-8") != before
    assert fix(["train.py"]) == 0
    assert "nothing to fix" in capsys.readouterr().err


def test_the_change_is_written_if_that_is_wanted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = broken("01_second_backward_rnn.py", folder)
    script.write_bytes(script.read_bytes().replace(b"\n", b"\r\n"))
    script.chmod(0o750)
    assert fix(["train.py"], write=True) == 0
    assert "backsight: written: train.py" in capsys.readouterr().err
    assert script.stat().st_mode & 0o777 == 0o750
    assert script.read_bytes().count(b"\r\n") == script.read_bytes().count(b"\n")
    assert fix(["train.py"]) == 0
    assert "nothing to fix" in capsys.readouterr().err
    assert [each.name for each in folder.iterdir() if each.is_file()] == ["train.py"]


def test_what_was_changed_meanwhile_is_not_written_over(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script, run = broken("05_inplace_residual.py", folder), trials._hidden
    mine = script.read_text(encoding="utf-8") + "# mine\n"

    def hidden(command: Sequence[str], *given: Any) -> tuple[int | None, str]:
        script.write_text(mine, encoding="utf-8")
        return run(command, *given)

    monkeypatch.setattr(trials, "_hidden", hidden)
    assert fix(["train.py"], write=True) == 1
    told = capsys.readouterr()
    assert "Nothing is written, as train.py was changed meanwhile." in told.err and told.out.startswith(
        "--- a/train.py"
    )
    assert script.read_text(encoding="utf-8") == mine


def test_the_page_shows_what_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(BROKEN.parents[1])
    fix(["examples/broken/08_no_grad_item.py"])
    told = capsys.readouterr()
    shown = "backsight tries the fix" + told.err.partition("backsight tries the fix")[2].partition("To write")[0]
    page = Path("docs", "diagnosis.md").read_text(encoding="utf-8")
    assert f"```text\n{shown.rstrip()}\n\n{told.out.rstrip()}\n```\n" in page


def test_a_change_after_which_something_is_found_is_shown_and_not_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = folder / "train.py"
    script.write_text("x = 1\n", encoding="utf-8")
    idle = trials.Fault("BS102", "warning", "It trains nothing.", "train.py:1", "x = 1", "", (), False)
    edits = (write(lines_of(str(script), 1), "x = 2"),)
    error = trials.Fault("BS201", "error", "It fails.", "train.py:1", "x = 1", "", (edits,), True)
    outcomes = {
        "x = 1\n": trials.Outcome(1, (error,), None, "", 1.0),
        "x = 2\n": trials.Outcome(0, (idle,), 1, "", 1.0, moved=frozenset({(0, 0)}), still={(0, 1): ""}),
    }

    def run(words: Sequence[str], texts: Mapping[str, str], *given: Any, **named: Any) -> trials.Outcome:
        return outcomes[texts.get(str(script), "x = 1\n")]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["backsight.fixing.fix"], "run", run)
        assert fix(["train.py"]) == 1
        assert "To write it" not in capsys.readouterr().err
        assert fix(["train.py"], write=True) == 1
    told = capsys.readouterr()
    assert "BS102 at train.py:1: It trains nothing." in told.err and "Nothing is written" in told.err
    assert "+x = 2\n" in told.out and script.read_text(encoding="utf-8") == "x = 1\n"


def _faked(monkeypatch: pytest.MonkeyPatch, script: Path, **outcomes: trials.Outcome) -> None:
    """Let runs of a script of one line come out as is told for that line."""

    def run(words: Sequence[str], texts: Mapping[str, str], *given: Any, closely: bool = False, **named: Any) -> Any:
        line = texts.get(str(script), "start").strip()
        return outcomes.get(f"{line}_closely" if closely else line) or outcomes[line]

    script.write_text("start\n", encoding="utf-8")
    monkeypatch.setattr(sys.modules["backsight.fixing.fix"], "run", run)


def _error(script: Path, *lines: str, fix: str = "") -> trials.Fault:
    edits = tuple((write(lines_of(str(script), 1), line),) for line in lines)
    return trials.Fault("BS201", "error", "It fails.", "train.py:1", "start", fix, edits, True)


def test_what_else_works_is_told_and_can_be_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script, ended = folder / "train.py", trials.Outcome(0, (), 3, "", 1.0)
    start = trials.Outcome(1, (_error(script, "one", "two"),), None, "", 1.0)
    _faked(monkeypatch, script, start=start, one=ended, two=ended)
    assert fix(["train.py"]) == 0
    told = capsys.readouterr()
    assert "+one\n" in told.out and "two" not in told.out
    assert "train.py:1: write `two`\n\nTo see it as a diff: backsight fix --way 2 train.py" in told.err
    assert fix(["train.py"], way=2) == 0
    told = capsys.readouterr()
    assert "+two\n" in told.out and "backsight fix --write --way 2 train.py" in told.err
    assert fix(["train.py"], way=3) == 1
    assert "there is no way 3: 2 changes do" in capsys.readouterr().err
    assert fix(["train.py"], way=2, write=True) == 0
    assert script.read_text(encoding="utf-8") == "two\n"


def test_a_program_of_which_only_the_first_steps_were_watched_is_watched_again(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = folder / "train.py"
    start = trials.Outcome(1, (_error(script, fix="Look around."),), None, "", 1.0, unwatched=True)
    seen = trials.Outcome(1, (_error(script, "good", fix="Write good."),), None, "", 1.0)
    _faked(monkeypatch, script, start=start, start_closely=seen, good=trials.Outcome(0, (), 3, "", 1.0))
    assert fix(["train.py"]) == 0
    told = capsys.readouterr()
    assert "+good\n" in told.out and "BS201 at train.py:1: It fails.\n  Write good." in told.err
    for again in (start, trials.Outcome(None, (), 9, "", 1.0)):
        _faked(monkeypatch, script, start=start, start_closely=again)
        assert fix(["train.py"]) == 1
        assert "no edit of this fix is known" in capsys.readouterr().err


def test_an_error_after_the_watched_steps_is_known_as_such(folder: Path) -> None:
    (folder / "train.py").write_text(
        "import torch\nmodel = torch.nn.Linear(2, 1)\nopt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for step in range(400):\n    loss = model(torch.ones(2)).sum()\n    opt.zero_grad()\n"
        "    loss.backward()\n    opt.step()\nloss.detach().backward()\n",
        encoding="utf-8",
    )
    outcome = trials.run(["train.py"], {}, None)
    assert outcome.failure is not None and outcome.unwatched
    outcome = trials.run(["train.py"], {}, None, closely=True)
    assert outcome.failure is not None and not outcome.unwatched


def test_an_error_that_is_none_of_autograds_has_no_change_to_try(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "train.py").write_text("raise ValueError('mine')\n", encoding="utf-8")
    assert fix(["train.py"]) == 1
    assert "none that backsight knows" in capsys.readouterr().err


IN_MODULE = """import torch

def loss_of(weight):
    return weight.square()
"""
MAIN = """import torch
from losses import loss_of

weight = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(3):
    loss = loss_of(weight)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(open("losses.py").read() == open("losses.txt").read())
"""


def test_a_module_is_edited_in_memory_and_no_bytecode_of_it_is_kept(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in {"losses.py": IN_MODULE, "losses.txt": IN_MODULE, "train.py": MAIN}.items():
        (folder / name).write_text(text, encoding="utf-8")
    outcome = trials.run(["train.py"], {}, None)
    assert outcome.failure is not None and outcome.failure.code == "BS212"
    edited = IN_MODULE.replace("square()", "square().mean()")
    outcome = trials.run(["train.py"], {str(folder / "losses.py"): edited}, None)
    assert not outcome.failed and outcome.steps == 3
    assert (folder / "losses.py").read_text(encoding="utf-8") == IN_MODULE
    latin = f"# coding: latin-1\n{edited}assert len('\xe9') == 1\n"
    assert not trials.run(["train.py"], {str(folder / "losses.py"): latin}, None).failed
    again = trials.run(["train.py"], {}, None)
    assert again.failure is not None


def test_a_run_whose_time_is_over_is_ended_with_what_it_has_started(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    (folder / "train.py").write_text(
        "import subprocess, sys, time\n"
        "begun = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "try:\n    print(begun.pid, file=open('begun', 'w'), flush=True)\n    time.sleep(600)\n"
        "except KeyboardInterrupt:\n    open('ended', 'w').close()\n",
        encoding="utf-8",
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what runs beside it ignore it
    try:
        process = subprocess.Popen([sys.executable, "-m", "backsight", "run", "train.py"], **trials._apart())
    finally:
        signal.signal(signal.SIGINT, before)
    while not (folder / "begun").exists() or not (folder / "begun").read_text():
        time.sleep(0.05)
    assert trials._ended(process, 0.1) is None
    assert (folder / "ended").exists()
    with pytest.raises(ProcessLookupError):
        while True:  # until init has taken notice of its end
            os.kill(int((folder / "begun").read_text()), 0)
            time.sleep(0.01)


def test_trained_means_moved_by_a_gradient(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.py").write_text(
        "import torch\nused = torch.nn.Linear(2, 1)\nunused = torch.nn.Linear(2, 1)\n"
        "opt = torch.optim.AdamW([*used.parameters(), *unused.parameters()], lr=0.1)\n"
        "for step in range(3):\n    opt.zero_grad()\n    y = used(torch.ones(4, 2))\n"
        "    loss = y + 0 * unused(torch.ones(4, 2))\n    loss.backward()\n    opt.step()\n",
        encoding="utf-8",
    )
    assert fix(["train.py"]) == 0
    told = capsys.readouterr().err
    assert "3 optimizer steps, 2 parameters trained, does not train unused.weight and unused.bias" in told
    assert "With this change it runs, but does not train unused.weight and unused.bias" in told


def test_a_value_that_nothing_reads_once_the_change_is_made_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = folder / "train.py"
    start, ended = trials.Outcome(1, (_error(script, "pass"),), None, "", 1.0), trials.Outcome(0, (), 3, "", 1.0)
    script.write_text("loss.backward(trust)\ntrust = 1\n", encoding="utf-8")
    monkeypatch.setattr(
        sys.modules["backsight.fixing.fix"], "run", lambda words, texts, *_, **__: ended if texts else start
    )
    assert fix(["train.py"]) == 0
    told = capsys.readouterr().err
    assert "With this change it runs, but leaves trust unused. Use it only if that is meant:" in told
