"""Words on the command line that are no command or no option: what was meant, and where else it is."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

from backsight.text import inert
from backsight.text.meant import meant, offered

_IN_PYTHON = {
    "audit": "backsight.audit(loss), before backward(); for a script: backsight run train.py",
    "draw": 'backsight.graph(loss).draw("loss.svg")',
    "graph": "backsight.graph(loss)",
    "memory": "backsight.measure_memory(step)",
    "profile": "with backsight.profile() as p",
    "record": "backsight.record(model, optimizer); for a script: backsight run --record train.py",
    "release": "backsight.release(optimizer)",
    "trace": "backsight.trace(path); for a script: backsight run --trace steps=0,1 train.py",
    "walk": "backsight.walk(loss)",
    "watch": "with backsight.watch(); for a script: backsight run train.py",
}
"""What is no command, but a function that has this name."""


class Parser(argparse.ArgumentParser):
    """Spells out what a word on the command line would do to the terminal that it is told on."""

    commands: Mapping[str, Parser] = {}
    """The commands by name, of the parser that has them."""

    def options(self) -> list[str]:
        return [option for action in self._actions for option in action.option_strings]

    def error(self, message: str) -> NoReturn:
        if found := _VALUE_OF_FLAG.fullmatch(message):
            option, value = found.groups()
            folder = f"; to record into a folder: --record --run {value}" if option == "--record" else ""
            message = f"{option} takes no value{folder}"
        super().error(inert(message))


_VALUE_OF_FLAG = re.compile(r"argument ([^\s/]+)\S*: ignored explicit argument '(.*)'")
"""What argparse says of `--record=FOLDER`."""


def to_command(words: list[str], parser: Parser) -> None:
    """End with the command that was meant, if the first word is none; with the help, if there is no word."""
    if not words:
        parser.exit(2, parser.format_help())
    if words[0].startswith("-"):
        if words[0] not in parser.options():
            to_option(words[0], parser)
        return
    word, commands = words[0], [each for each in parser.commands if " " not in each]
    if word == "runs" and words[1:] and not Path(words[1]).exists():  # `runs shw`, and not a folder
        word, commands = " ".join(words[:2]), [each for each in parser.commands if " " in each]
        if near := meant(word, commands, likeness=0.8):
            parser.error(f"there is no folder {words[1]!r}{near}")
    elif word.endswith(".py"):
        parser.error(f"{word!r} is not a command; to run a script: backsight run {word}")
    elif word not in parser.commands:
        parser.error(f"there is no command {word!r}{_instead(word, commands, parser.prog, 'commands')}")


def to_option(word: str, parser: Parser) -> NoReturn:
    """End with the option of a command that was meant."""
    if not word.startswith("-"):
        parser.error(f"one argument too many: {word!r}")
    name = word.partition("=")[0]
    parser.error(f"there is no option {word!r}{_instead(name, parser.options(), parser.prog, 'options')}")


def _instead(word: str, known: Sequence[str], program: str, what: str) -> str:
    """Return the end of an error about a word: what is close to it, or how to see what there is."""
    if near := meant(word, known, 2, 0.75):
        return near
    for name in get_close_matches(word, _IN_PYTHON, 1, 0.75):
        said = "; in a program" if name == word else f"{offered([name])} In a program"
        return f"{said}: {_IN_PYTHON[name]}"
    return meant(word, known) or f"; `{program} --help` lists the {what}"
