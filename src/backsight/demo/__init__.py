"""`backsight demo`: a healthy script and two broken ones, run as a newcomer would; then the first, recorded.

Offered to other rooms: `show`.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from backsight.text.rich import escape

if TYPE_CHECKING:
    from backsight.text.rich import Console

HERE = Path(__file__).parent

HEALTHY = "digits.py"


@dataclass(frozen=True)
class Act:
    """A script, the exit status that it must have, the code of what backsight must say of it, and what to look at.

    code: None for a script that is audited and of which nothing is found.
    """

    script: str
    status: int
    code: str | None
    what: str


ACTS = (
    Act(HEALTHY, 0, None, "A healthy training script: backsight says in one line that nothing is wrong."),
    Act(
        "01_second_backward_rnn.py",
        1,
        "BS201",
        'It dies with "Trying to backward through the graph a second time".\nPyTorch names no variable.',
    ),
    Act(
        "18_forgotten_leaf.py",
        0,
        "BS101",
        "A script that runs, exits with 0 and learns nothing: PyTorch says nothing.",
    ),
)

RECORDED = "The first script again, recorded: every tensor, every step, script unchanged."


def show(open_browser: bool | None = None) -> int:
    """Run the three scripts under `backsight run`, record the first; return 0 if each showed what it is there for.

    open_browser: look at the recording in a browser at the end, until Ctrl-C; where there is a display, if not given.
    """
    from backsight.text.rich import Console

    console = Console(highlight=False, emoji=False)
    missed = [f"act {k}: {wrong}" for k, act in enumerate(ACTS, 1) for wrong in _played(console, k, act)]
    last = len(ACTS) + 1
    _announce(console, last, RECORDED)
    folder = tempfile.mkdtemp(prefix="backsight-demo-")
    missed += [f"act {last}: {wrong}" for wrong in _recorded(console, folder)]
    if missed:
        _admit(missed)
        return 1
    console.print("Run your own: [bold]backsight run --record train.py[/bold]")
    _look(console, folder, _has_display() if open_browser is None else open_browser)
    return 0


def _played(console: Console, number: int, act: Act) -> list[str]:
    """Run the script of an act; return what it should have shown and did not."""
    _announce(console, number, act.what)
    with tempfile.TemporaryDirectory(prefix="backsight-demo-") as folder:
        said = Path(folder) / "said.jsonl"
        status = _command(console, "run", "--json-to", str(said), act.script, typed=f"run {act.script}")
        lines = said.read_text(encoding="utf-8").splitlines() if said.exists() else []
    heard = [json.loads(line) for line in lines]
    codes = {line["code"] for line in heard if "code" in line}
    missed = []
    if status != act.status:
        missed.append(f"{act.script} ended with exit status {status} instead of {act.status}")
    if act.code is None and not any(line.get("audits") for line in heard):
        missed.append(f"backsight audited no loss of {act.script}")
    if act.code is not None and act.code not in codes:
        missed.append(f"backsight did not find {act.code} in {act.script}")
    false = sorted(codes - {act.code})
    return [*missed, f"backsight found {', '.join(false)} in {act.script}, which is not there"] if false else missed


def _recorded(console: Console, folder: str) -> list[str]:
    """Record the healthy script, and show the table of its last step; return what did not go well."""
    from backsight.runs import RunError, open_run

    run = ("--record", "--run", f"{folder}/digits")
    recorded = _command(console, "run", "--quiet", *run, HEALTHY, typed=f"run --record --run digits {HEALTHY}")
    shown = _command(console, "runs", "show", "digits", typed="runs show digits", folder=folder)
    missed = [
        f"`backsight {what}` ended with exit status {status} instead of 0"
        for what, status in (("run --record", recorded), ("runs show", shown))
        if status != 0
    ]
    try:
        steps = len(open_run(f"{folder}/digits").steps)
    except RunError as error:
        return [*missed, f"the recording cannot be read: {error}"]
    return missed if steps else [*missed, f"no step of {HEALTHY} was recorded"]


def _admit(missed: list[str]) -> None:
    """Say what the demo was meant to show and did not."""
    sys.stdout.flush()
    print("This demo did not show what it should:", file=sys.stderr)
    for each in missed:
        print(f"  {each}", file=sys.stderr)
    print("`backsight doctor` lists what works with this PyTorch and this Python.", file=sys.stderr)


def _look(console: Console, folder: str, open_browser: bool) -> None:
    """Say how to look at the recording, or do it."""
    console.print("The recording is kept. View it: the model over time, every tensor, the graph.", soft_wrap=True)
    if open_browser and find_spec("uvicorn") is not None and find_spec("starlette") is not None:
        with suppress(KeyboardInterrupt):  # which ends the viewer, and is what ends the demo
            _command(console, "view", "--open", "digits", typed="view --open digits", folder=folder)
    else:
        console.print(f"  [bold]backsight view {escape(shlex.quote(folder))}/digits[/bold]", soft_wrap=True)


def _has_display() -> bool:
    """Whether somebody sits before this terminal, with a screen that can show a browser."""
    shown = sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return shown and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def _announce(console: Console, act: int, what: str) -> None:
    console.rule(f"[bold]{act} of {len(ACTS) + 1}", align="left")
    console.print(what)


def _command(console: Console, *command: str, typed: str, folder: str | None = None) -> int:
    """Run a command of ours, say what would be typed, and return its exit status."""
    console.print(f"[dim]$ backsight {typed}[/dim]\n")
    sys.stdout.flush()
    words = [str(HERE / word) if word.endswith(".py") else word for word in command]
    status = subprocess.call([sys.executable, "-m", "backsight", *words], cwd=folder)
    console.print(f"\n[dim]exit status {status}[/dim]\n")
    return status
