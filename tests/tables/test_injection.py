"""A recording, a package or a folder of somebody else's, looked at in a terminal: nothing of it steers the terminal."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from pathlib import Path

import fresh
import numpy as np
import pytest
import terminal
from shown import environment

from backsight.cli import main
from backsight.extras import Package
from backsight.launch import voice
from backsight.runs import STATISTICS, RunWriter, open_run

EVIL = "\x1b]0;pwned\x07\x1b[2J\x1b[35;7mevil\r\x9b31m\b\u202e\n"
"""Sets the title, clears the screen, hides, goes back, turns the text around, and begins a line."""

UNREADABLE = b"not utf-8 \xff\xfe \x1b[35;7m"
OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;(?:id=\d+;file://[!-~]+|;)\x1b\\|\r?\x1b\[(\?25[lh]|1A|2K)")
"""Colours, and what moves rich's spinner; none of it is in `EVIL` but the colour, which is looked for by itself."""
TAGS = {f"tag {EVIL}": EVIL, "loss": 0.5}


def evil(folder: Path) -> Path:
    """A run in which everything that has a name is called so."""
    run = folder / f"run {EVIL.strip()}"
    tree = [{"name": EVIL, "type": EVIL, "parameters": [], "children": []}]
    rows = np.zeros(2, STATISTICS)
    rows["count"], rows["nans"] = 4, [4, 0]
    with RunWriter(run, config={EVIL: EVIL}, environment={EVIL: EVIL}, world=2) as writer:
        numbers = [writer.tensor(f"{EVIL}.weight", "grad", EVIL, (4,), EVIL), writer.tensor(EVIL, EVIL, EVIL)]
        metric = writer.metric(EVIL)
        writer.tree(tree)
        for step in range(3):
            writer.append(step, numbers, rows)
            writer.values(step, metric, numbers, [1.0, 2.0])
            writer.mark(step, **TAGS)
            writer.event(EVIL, step=step, why=EVIL)
    return run


def on_a_terminal(words: list[str], folder: Path) -> str:
    """What a command writes to a terminal, on either stream."""
    line = [sys.executable, "-m", "backsight", *words]
    return terminal.written(line, cwd=folder, env=environment(TERM="xterm-256color"), torn_down=False)[1]


def piped(words: list[str], folder: Path) -> str:
    line = [sys.executable, "-m", "backsight", *words]
    ended = fresh.run(line, cwd=folder, env=environment(), torn_down=False)
    return ended.stdout + ended.stderr


def check(said: str) -> None:
    assert "\x1b[35;7m" not in said
    bare = OURS.sub("", said)
    assert [c for c in bare if c != "\n" and not c.isprintable()] == []


COMMANDS = [
    ["runs", "."],
    ["runs", "show", "RUN"],
    ["runs", "show", "RUN", "--all", "--kind", EVIL],
    ["runs", "show", "RUN", "--kind", f"no {EVIL}"],
    ["runs", "show", "RUN", "--stat", f"{EVIL}"],
    ["runs", "show", "RUN", "--step", "77"],
    ["runs", "audit", "RUN"],
    ["runs", "audit", "RUN", "--json"],
    ["runs", "export", "RUN", "out\x1b[35;7m.csv"],
    ["runs", "export", "RUN", f"{EVIL}/out.csv"],
    ["runs", "show", f"no {EVIL}"],
    ["runs", f"no {EVIL}"],
    ["view", f"no {EVIL}"],
    ["view", "RUN", "--report", "out\x1b[35;7m.html"],
    ["forecast", f"no{EVIL}:x"],
    ["verify", f"no{EVIL}:x"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_no_command_lets_a_name_steer_the_terminal(tmp_path: Path, words: list[str]) -> None:
    run = evil(tmp_path)
    words = [word.replace("RUN", str(run)) for word in words]
    check(piped(words, tmp_path))
    check(on_a_terminal(words, tmp_path))


def test_what_is_damaged_is_said_without_its_characters(tmp_path: Path) -> None:
    run = evil(tmp_path)
    (run / "rank-00000" / "manifest.json").write_bytes(b"{}")
    for words in (["runs", "."], ["runs", "show", str(run)], ["view", str(run), "--report", "x.html"]):
        said = piped(words, tmp_path)
        assert "damaged" in said
        check(said)
        check(on_a_terminal(words, tmp_path))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    folder = os.path.join(os.fsencode(tmp_path), UNREADABLE)
    evil(Path(os.fsdecode(folder)))
    for words in (["runs", "."], ["runs"]):
        said = piped(words, tmp_path)
        assert "Traceback" not in said
        check(said)
    said = piped(["runs", "show", os.fsdecode(folder)], tmp_path)
    assert "Traceback" not in said
    check(said)


def test_an_error_of_the_store_says_no_character_raw(tmp_path: Path) -> None:
    with pytest.raises(Exception) as raised:
        open_run(tmp_path / EVIL)
    check(str(raised.value))


def test_our_own_failure_is_one_line_whatever_its_message_holds(capsys: pytest.CaptureFixture[str]) -> None:
    voice.failed("no report", type(f"Odd{EVIL}", (Exception,), {})(f"{EVIL}backsight: all is well"))
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.endswith("\n")
    check(said)


@pytest.mark.parametrize("seen_on", ["a terminal", "a pipe"])
def test_a_finding_beside_a_program_steers_nothing(tmp_path: Path, seen_on: str) -> None:
    seen = EVIL.replace("\r", "").strip()  # which would end the line
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "model, loss_of = torch.nn.Linear(2, 1), torch.nn.MSELoss()\n"
        f"loss = loss_of(model(torch.ones(2)), torch.ones(1))  # {seen}\n"
        "loss.backward()\n"
        f"loss.backward()  # {seen}\n"
    )
    shown = on_a_terminal if seen_on == "a terminal" else piped
    told = shown(["run", "train.py"], tmp_path).partition("backsight explains")[2]
    assert "BS201" in told
    check(told)


def test_doctor_says_of_a_broken_package_nothing_raw(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "evil_here.py").write_text(f"raise OSError({EVIL.strip()!r})\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("backsight.tables.doctor.PACKAGES", [Package("evil_here", "evil-here", None, EVIL)])
    importlib.invalidate_caches()
    assert main(["doctor", "--imports"]) == 1
    check(capsys.readouterr().out)
    assert main(["doctor", "--imports", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["parts"]


@pytest.mark.parametrize("words", [["doctor", EVIL], ["run", f"--bad{EVIL}", "x.py"], [EVIL]])
def test_words_that_are_not_known_are_told_without_their_characters(words, capsys):
    with pytest.raises(SystemExit):
        main(words)
    said = capsys.readouterr().err
    assert "evil" in said and "\x1b" not in said and "\x9b" not in said
