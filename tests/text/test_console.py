"""What others have named reaches a terminal as text: no character of it steers one."""

from __future__ import annotations

import ast
import io
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import backsight
from backsight.findings import Finding
from backsight.findings.evidence import Evidence
from backsight.source import Place
from backsight.text import inert, printable
from backsight.text.console import Console

SOURCE = Path(backsight.__file__).parent

OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;(id=\d+;file://[!-~]+|;)\x1b\\")
"""Colours, and links to files."""

ANYTHING = st.text(st.characters(codec=None, categories=None), max_size=60)
STEERING = st.sampled_from(
    ["\x1b[2J", "\x1b]0;title\x07", "\x1b]8;;http://evil\x1b\\", "\x9b31m", "\r", "\b\b\b", "\u202e", "\x1bc", "\u2028"]
)


def steers(text: str) -> list[str]:
    """The characters of a text that could steer a terminal; our own colours, links and lines are none."""
    return [c for c in OURS.sub("", text) if c not in "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl")]


def drawn(what: object, *, color: bool) -> str:
    out = io.StringIO()
    Console(file=out, width=60, force_terminal=color, color_system="standard" if color else None).print(what)
    return out.getvalue()


@given(st.one_of(ANYTHING, st.lists(st.one_of(ANYTHING, STEERING)).map("".join)))
def test_no_text_steers_a_terminal(text: str) -> None:
    assert steers(inert(text).replace("\t", "")) == []
    assert inert(inert(text)) == inert(text)
    said = printable(text)
    assert said.isprintable()
    assert said == text or not text.isprintable()
    inert(text).encode()


@pytest.mark.parametrize("color", [False, True])
@given(st.lists(st.one_of(ANYTHING, STEERING), min_size=1).map("".join))
def test_nothing_that_is_drawn_steers_a_terminal(color: bool, text: str) -> None:
    table = Table(text, title=text)
    table.add_row(text)
    finding = Finding("BS101", "error", text, (text, Evidence(text, Place("train.py", 3, text))), text, source=text)
    for what in (text, Text(text, "red"), Panel(text, title=text), table, finding):
        said = drawn(what, color=color)
        assert steers(said) == []
        assert color or "\x1b" not in said
        said.encode()


def test_a_colour_in_a_name_is_no_colour() -> None:
    said = drawn(Text("\x1b[8mhidden", "bold"), color=True)
    assert said == "\x1b[1m\\x1b[8mhidden\x1b[0m\n"


def test_the_lines_of_a_text_stay_lines() -> None:
    assert inert("one\n\ttwo\r\nthree") == "one\n\ttwo\\r\nthree"


def test_a_name_is_no_markup_and_no_emoji() -> None:
    assert drawn("[bold]x[/] :smile: [/]", color=True) == "[bold]x[/] :smile: [/]\n"


def runs_when_imported(tree: ast.Module) -> list[ast.AST]:
    """All nodes but those that only a type checker sees."""
    found, waiting = [], list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        found.append(node)
        waiting += ast.iter_child_nodes(node)
    return found


OURS_ONLY = ("demo/__init__.py", "text/console.py", "text/rich.py")
"""Where rich's own console is meant: the demo prints what it has written itself, and one file imports it for all."""

HARMLESS = ("inert(", "printable(", "json.dumps(")
"""What the argument of a `print` begins with."""


def test_all_that_is_printed_goes_through_one_place() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name in OURS_ONLY or name.startswith("demo/"):
            continue
        for node in runs_when_imported(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module in ("rich.console", "backsight.text.rich"):
                named = [alias.name for alias in node.names]
                wrong += [f"{name}:{node.lineno} imports rich's Console"] if "Console" in named else []
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
                said = [ast.unparse(each) for each in node.args]
                if not all(each.startswith(HARMLESS) for each in said):
                    wrong.append(f"{name}:{node.lineno} prints {', '.join(said)}")
    assert wrong == []


def test_no_escape_code_is_written_where_no_colours_are_wanted(monkeypatch):
    text = Text("bold", "bold red")
    for wanted, written in ((True, True), (False, False)):
        monkeypatch.setenv("NO_COLOR", "" if wanted else "1")
        file = io.StringIO()
        Console(file=file, force_terminal=True, _environ={"TERM": "xterm"}).print(text)
        assert ("\x1b" in file.getvalue()) == written
