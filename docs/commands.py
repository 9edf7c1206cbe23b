"""Command lines: what is wrong with those that pages show, without running any; and what each command takes."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
from pathlib import Path

import backsight.cli

ROOT = Path(__file__).parent.parent

_SHELL = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"(<!-- command: ([\w ]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_ENDS = {"|", ">", "2>&1", "&&", ";"}


def commands(text: str) -> list[list[str]]:
    """Return the command lines of a page as words, up to the first pipe, redirection or `&&`."""
    lines = (line for block in _SHELL.findall(text) for line in block.replace("\\\n", " ").splitlines())
    split = (shlex.split(line.removeprefix("$ "), comments=True) for line in lines if not line.startswith(" "))
    return [words[: next((k for k, word in enumerate(words) if word in _ENDS), len(words))] for words in split if words]


def complaint(words: list[str]) -> str | None:
    """Say what is wrong with a command line; None if it is right, or no business of this repository."""
    if "-m" in words and words[words.index("-m") + 1 :][:1] == ["backsight"]:
        words = words[words.index("-m") + 1 :]  # under torchrun, or python
    program, *rest = words
    if program == "backsight":
        return _refused(rest)
    if program == "make":
        targets = [name for name in rest if "=" not in name]
        return next((f"no target {name}" for name in targets if f"\n{name}:" not in _read("Makefile")), None)
    if program == "python" and rest and rest[0].endswith(".py") and "/" in rest[0]:
        return None if (ROOT / rest[0]).exists() else f"no file {rest[0]}"
    return None


def filled(text: str) -> str:
    """Return the text of a page with what each command takes."""
    return _COMMAND.sub(lambda found: f"{found[1]}\n{_taken(found[2])}\n\n{found[3]}", text)


def _taken(command: str) -> str:
    parser = backsight.cli.command_line()
    subparsers = next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    chosen = subparsers.choices[command]
    rows = [f"| `{_spelt(action)}` | {action.help} |" for action in chosen._actions if action.dest != "help"]
    helps = {each.dest: str(each.help) for each in subparsers._choices_actions}
    described = chosen.description or f"{helps[command].capitalize()}."
    return "\n".join([described, "", "| | |", "|---|---|", *rows])


def _spelt(action: argparse.Action) -> str:
    """Return an option or an argument as it is written on the command line."""
    value = "\\|".join(map(str, action.choices)) if action.choices else action.metavar
    if not action.option_strings:
        return str(value or "SCRIPT [ARGUMENT ...]")
    takes = value is not None and action.nargs != 0
    optional = action.nargs in ("?", "*")
    return ", ".join(action.option_strings) + (f" [{value}]" if optional else f" {value}" if takes else "")


def _refused(arguments: list[str]) -> str | None:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            backsight.cli.command_line().parse_args(backsight.cli._words(arguments))
        except SystemExit as leaving:
            return said.getvalue() if leaving.code else None
    return None


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
