"""A finding on a terminal: its evidence as frames of code, with a mark at the culprits and below them what they do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from backsight.findings.printing.excerpt import Excerpt, Row, at_source, change, shown_at, told
from backsight.text.console import printed
from backsight.text.rich import Text, linked

if TYPE_CHECKING:
    from backsight.findings.finding import Finding
    from backsight.text.rich import Console as RichConsole
    from backsight.text.rich import ConsoleOptions

STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold blue"}


def _linked(code: str) -> str:
    """Return the style of a code: where a terminal has links, one to its page, as it was installed or in the source."""
    package = Path(__file__).parents[2]
    pages = (package / "codes" / f"{code}.md", package.parents[1] / "docs" / "codes" / f"{code}.md")
    page = next((each for each in pages if each.is_file()), None)
    return "dim" if page is None else linked("dim", f"file://{quote(str(page))}")


@dataclass(frozen=True)
class Signs:
    """What frames are drawn with."""

    culprit: str
    involved: str
    rule: str
    says: str
    left_out: str


_SIGNS = Signs("❱", "•", "│", "╰╴", "⋮")
_ASCII = Signs(">", "*", "|", "`- ", ":")


def as_text(finding: Finding, *, width: int, color: bool = False) -> str:
    """Return a finding with its frames as text, for what prints it later."""
    return printed(finding, width=width, color=color, terminal=True)


def framed(finding: Finding, console: RichConsole, options: ConsoleOptions) -> Iterator[Text]:
    """Yield a finding in lines that fit the width."""
    head = Text.assemble(
        (f"{finding.severity} ", STYLES[finding.severity]), (finding.code, _linked(finding.code)), "  "
    )
    head.append(finding.title, "bold")
    yield from _wrapped(console, head, options.max_width)
    at = shown_at(finding.evidence, finding.source)
    has_code = is_apart = False  # apart: the last thing shown was code
    for part in told(finding.evidence, finding.source):
        if isinstance(part, str):
            if is_apart:
                yield Text("")
            is_apart = False
            yield from paragraphs(console, part, options)
            continue
        yield Text("")
        has_code = is_apart = True
        for number, excerpt in enumerate(part):
            if number:
                yield Text("")
            yield from _excerpt(console, excerpt, options)
    lines = None if any(place.text for place in at) else at_source(finding.source)
    if lines is not None:
        yield Text("")
        has_code = True
        yield from _excerpt(console, lines, options)
    places = list(finding._places(bool(at or lines)))
    if has_code and (places or finding.fix):
        yield Text("")
    yield from places
    if finding.fix:
        yield from _wrapped(console, Text.assemble(("fix: ", "bold green"), finding.fix), options.max_width - 2, "  ")
        for sign, text in change(finding):
            color = "red" if sign == "-" else "green"
            yield from _wrapped(console, Text(f"{sign} {text}", color), options.max_width - 6, "      ")


def paragraphs(console: RichConsole, part: str, options: ConsoleOptions, sign: str = " ") -> Iterator[Text]:
    """Yield text in lines that fit the width, with `sign` before the first."""
    for line in part.split("\n"):
        text = line.lstrip(" ")
        margin = " " * (1 + len(line) - len(text))
        for wrapped in _wrapped(console, Text(text), options.max_width - 1 - len(margin), margin):
            yield Text.assemble(sign, wrapped)
            sign = " "


def _excerpt(console: RichConsole, excerpt: Excerpt, options: ConsoleOptions) -> Iterator[Text]:
    signs = _ASCII if options.ascii_only else _SIGNS
    digits = max(len(str(row.number or "")) for row in excerpt.rows)
    file = os.path.abspath(excerpt.file)
    place = linked("cyan", f"file://{quote(file)}") if os.path.isfile(file) else "cyan"
    yield Text.assemble(" " * (digits + 3), (excerpt.name, place))
    for row in excerpt.rows:
        yield from _row(console, row, signs, digits, options.max_width)


def _row(console: RichConsole, row: Row, signs: Signs, digits: int, width: int) -> Iterator[Text]:
    if row.number is None:
        yield Text(f"{signs.left_out:>{digits + 2}} {signs.rule}", "dim")
        return
    gutter, blank = f"{row.number:>{digits}} {signs.rule} ", f"{'':{digits + 2}} {signs.rule} "
    room = max(width - len(blank), 20)
    if row.part == "context":
        line = Text(row.text, no_wrap=True)
        line.truncate(room, overflow="ellipsis")
        yield Text(f"  {gutter}{line.plain}", "dim")
        return
    sign, color = (signs.culprit, "red") if row.part == "culprit" else (signs.involved, "blue")
    inner = " " * row.indent
    first, *more = _wrapped(console, Text(row.text.lstrip(" "), "bold"), room - row.indent)
    yield Text.assemble((f"{sign} ", f"bold {color}"), (gutter[:-2], "bold"), (gutter[-2:], "dim"), inner, first)
    for rest in more:
        yield Text.assemble((blank, "dim"), inner, "    ", rest)
    if row.span is not None and not more:
        at, length = row.span
        yield Text.assemble((blank, "dim"), " " * at, ("^" * min(length, max(room - at, 1)), f"bold {color}"))
    for note in filter(lambda each: each.says, row.notes):
        start = f"{signs.says}{note.number}. " if note.number else signs.says
        for k, said in enumerate(_wrapped(console, Text(note.says, color), room - row.indent - len(start))):
            yield Text.assemble((blank, "dim"), inner, (" " * len(start) if k else start, color), said)


def _wrapped(console: RichConsole, text: Text, width: int, margin: str = "") -> Iterator[Text]:
    for line in text.wrap(console, max(width, 20)):
        line.rstrip()
        yield Text.assemble(margin, line)
