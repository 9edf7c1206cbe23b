"""`backsight demo`: a healthy script and two broken ones, run as a newcomer would; then the first, recorded."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

if TYPE_CHECKING:
    from rich.console import Console

HERE = Path(__file__).parent

HEALTHY = "digits.py"

ACTS = (
    (HEALTHY, 0, "A healthy training script: backsight stays out of its way, and says so in one line."),
    (
        "01_second_backward_rnn.py",
        1,
        'A script that dies with "Trying to backward through the graph a second time". PyTorch names no variable.',
    ),
    (
        "18_forgotten_leaf.py",
        0,
        "A script that runs, exits with 0, and learns nothing: PyTorch has nothing to say at all.",
    ),
)
"""Each act: the script, the exit status that it should have, and what there is to see."""

RECORDED = "The first script once more, recorded: every tensor, every step, no change to the script."


def show(open_browser: bool | None = None) -> int:
    """Run the three scripts under `backsight run`, record the first; return 0 if each ended as it should.

    open_browser: look at the recording in a browser at the end, until Ctrl-C; where there is a display, if not given.
    """
    from rich.console import Console

    console = Console(highlight=False, emoji=False)
    has_data = find_spec("sklearn") is not None
    as_expected = True
    for k, (script, expected, what) in enumerate(ACTS, 1):
        if script == HEALTHY and not has_data:
            console.print("(The first act needs scikit-learn for its data: pip install scikit-learn.)\n")
            continue
        _announce(console, k, what)
        status = _command(console, "run", script, typed=f"run {script}")
        as_expected &= status == expected
    if has_data:
        _announce(console, len(ACTS) + 1, RECORDED)
        folder = tempfile.mkdtemp(prefix="backsight-demo-")
        as_expected &= _recorded(console, folder)
        console.print("Run your own: [bold]backsight run --record train.py[/bold]")
        _look(console, folder, _has_display() if open_browser is None else open_browser)
    return 0 if as_expected else 1


def _recorded(console: Console, folder: str) -> bool:
    """Record the healthy script, and show the table of its last step; return whether that went well."""
    run = ("--record", "--run", f"{folder}/digits")
    recorded = _command(console, "run", "--quiet", *run, HEALTHY, typed=f"run --record --run digits {HEALTHY}")
    shown = _command(console, "runs", "show", "digits", typed="runs show digits", folder=folder)
    return recorded == shown == 0


def _look(console: Console, folder: str, open_browser: bool) -> None:
    """Say how to look at the recording, or do it."""
    console.print("The recording stays, to be looked at: the model over time, every tensor, the graph.", soft_wrap=True)
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
