"""`backsight demo`: a healthy script and two broken ones, run as a newcomer would run them."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent

ACTS = (
    ("digits.py", 0, "A healthy training script: backsight stays out of its way, and says so in one line."),
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


def show() -> int:
    """Run the three scripts under `backsight run`; return 0 if each ended as it should."""
    from rich.console import Console

    console = Console(highlight=False, emoji=False)
    as_expected = True
    for k, (script, expected, what) in enumerate(ACTS, 1):
        if script == "digits.py" and find_spec("sklearn") is None:
            console.print("(The first act needs scikit-learn for its data: pip install scikit-learn.)\n")
            continue
        console.rule(f"[bold]{k} of {len(ACTS)}", align="left")
        console.print(what)
        console.print(f"[dim]$ backsight run {script}[/dim]\n")
        sys.stdout.flush()
        status = subprocess.call([sys.executable, "-m", "backsight", "run", str(HERE / script)])
        console.print(f"\n[dim]exit status {status}[/dim]\n")
        as_expected &= status == expected
    console.print("Run your own: [bold]backsight run train.py[/bold]")
    return 0 if as_expected else 1
