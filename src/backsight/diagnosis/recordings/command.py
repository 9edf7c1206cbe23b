"""The command that runs the program of a recording again."""

from __future__ import annotations

import shlex

from backsight.runs import Run

_LONGEST = 160
"""A command of more characters says less than its options do."""

_NO_PROGRAM = ("ipykernel_launcher", "colab_kernel_launcher")


def run_again(run: Run, *options: str) -> str:
    """Return the whole command if the recording tells what was run, as one process; else its beginning."""
    ours = ("backsight", "run", *options)
    held = run.environment
    command, given = held.get("command"), held.get("arguments")
    program = _program(command, given) if run.world == 1 else None
    if program is None:
        return " ".join(ours)
    whole = shlex.join([*ours, *program])
    return whole if len(whole) <= _LONGEST and whole.isprintable() else " ".join(ours)


def _program(command: object, given: object) -> list[str] | None:
    """Return the script, or -m and the module, and its arguments, by how Python was started."""
    if not isinstance(command, list) or not isinstance(given, list):
        return None
    words, arguments = [str(each) for each in command], [str(each) for each in given]
    started = words[: len(words) - len(arguments)]
    if [*started, *arguments] != words or len(started) < 2:
        return None  # the program has changed sys.argv
    *before, name = started
    if before[-1] == "-m":
        return None if name in _NO_PROGRAM else ["-m", name, *arguments]
    return [name, *arguments] if name.endswith(".py") else None
