"""Excerpts: the lines of source that evidence is about, each with what is said of it."""

from __future__ import annotations

import ast
import linecache
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Literal

from backsight.findings.evidence import Fact, doubt, evidence_of
from backsight.source import Place
from backsight.source.body import short_path
from backsight.source.edits import EditError, edited

if TYPE_CHECKING:
    from backsight.findings.finding import Finding

CONTEXT = 2
"""Lines shown before and after a culprit."""

_BRIDGED = 2
"""Lines between two shown ones that are shown as well, rather than a sign that some are left out."""

_LONGEST = 8
"""Lines of one statement that are shown; of a longer one its head and its end."""

_FEW = 3
"""Lines of a change that are shown, of those that go as of those that come."""

_WIDEST = 240
"""Characters of a line."""


@dataclass(frozen=True)
class Note:
    """What is said of a statement; `number` tells its place in the story where that is not the order of the lines."""

    says: str
    number: int | None = None


@dataclass(frozen=True)
class Row:
    """A line of an excerpt; `number` is None for lines that are left out.

    `part` is what it has to do with it: the culprit is the line that a finding is about.
    """

    number: int | None
    text: str = ""
    part: Literal["culprit", "involved", "context"] = "context"
    notes: tuple[Note, ...] = ()
    span: tuple[int, int] | None = None
    """Where in the text the expression stands that it is about: from, and how long; of a culprit on one line."""

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip(" "))


@dataclass(frozen=True)
class Excerpt:
    """Some lines of one file. `line` is the culprit, or the first that is involved."""

    file: str
    line: int
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        """`train.py:38`, which terminals and editors turn into a link."""
        return f"{short_path(self.file)}:{self.line}"


def told(evidence: Sequence[Fact], source: str | None) -> Iterator[str | tuple[Excerpt, ...]]:
    """Yield evidence in its order: text, and excerpts for what is about statements; `source` is the finding's.

    Last comes what of it is in doubt.
    """
    for about_source, facts in groupby(
        map(evidence_of, evidence), key=lambda each: bool(each.place and each.place.text)
    ):
        if about_source:
            yield excerpts([(each.place, each.text) for each in facts if each.place], source)
        else:
            yield from map(str, facts)
    if said := doubt(evidence):
        yield said


def at_source(source: str | None) -> Excerpt | None:
    """Return the lines around `file.py:12`, which a finding gives as its source and no evidence shows."""
    found = re.match(r"(.+):(\d+)$", (source or "").partition(" in ")[0])
    if found is None or not os.path.isfile(found[1]):
        return None
    lines, line = _source(found[1]), int(found[2])
    if not 0 < line <= len(lines) or not lines[line - 1].strip():
        return None
    return excerpts([(Place(os.path.abspath(found[1]), line, lines[line - 1].strip()), "")], source)[0]


def change(finding: Finding) -> list[tuple[Literal["-", "+"], str]]:
    """Return the lines that the first alternative of a fix takes out of a program and puts into it.

    Empty where that is more than a few, or in several files, and where a line only moves: the fix says where to.

    >>> change(finding)     # whose fix is "Write h = h.add(1): that makes a new tensor."
    [('-', 'h.add_(1)'), ('+', 'h = h.add(1)')]
    """
    edits = finding.edits[0] if finding.edits else ()
    files = {each.file: _source(each.file) for each in edits}
    known = (place for place in shown_at(finding.evidence, finding.source) if place.file in files and place.text)
    if len(files) != 1 or not all(_fits(place, files[place.file]) for place in known):
        return []
    ((file, before),) = files.items()
    try:
        after = edited(edits, {file: "".join(before)})[file].splitlines()
    except EditError:  # the file is another one since
        return []
    old, new = [line.rstrip("\n") for line in before], after
    lines = list[tuple[Literal["-", "+"], str]]()
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            lines += [("-", _printable(each)) for each in old[i:j]] + [("+", _printable(each)) for each in new[k:m]]
    out, in_ = ([each for sign, each in lines if sign == one] for one in "-+")
    if max(len(out), len(in_)) > _FEW or sorted(map(str.strip, out)) == sorted(map(str.strip, in_)):
        return []
    margin = min((len(each) - len(each.lstrip(" ")) for _, each in lines if each), default=0)
    return [(sign, each[margin:]) for sign, each in lines]


def _statement(text: str) -> ast.stmt | None:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    return body[0] if len(body) == 1 else None


def _span(text: str, notes: Sequence[Note]) -> tuple[int, int] | None:
    """Return where the expression of a line stands that is spoken of: what a note quotes, else what it computes."""
    quoted = (each for note in notes for each in re.findall(r"`([^`]+)`", note.says))
    for each in sorted(quoted, key=len, reverse=True):
        if each in text:
            return text.index(each), len(each)
    code = text.strip()
    statement = _statement(code)
    value = getattr(statement, "value", None) if isinstance(statement, ast.Assign | ast.Expr | ast.Return) else None
    segment = (ast.get_source_segment(code, value) if value is not None else None) or code
    return (text.index(segment), len(segment)) if segment and "\n" not in segment else None


def shown_at(evidence: Sequence[Fact], source: str | None) -> list[Place]:
    """Return the statements among the evidence that a finding gives as its source."""
    return [each.place for each in map(evidence_of, evidence) if each.place and _is_at(each.place, source)]


def _is_at(place: Place, source: str | None) -> bool:
    return source is not None and (source == str(place) or source.startswith(f"{place} "))


def excerpts(story: Sequence[tuple[Place, str]], source: str | None) -> tuple[Excerpt, ...]:
    """Return statements, each with what is said of it, in excerpts of their files, those of one file together."""
    files: dict[str, list[tuple[int, Place, str]]] = {}
    for number, (place, says) in enumerate(story, 1):
        files.setdefault(place.file, []).append((number, place, says))
    ordered = [sorted(inside, key=lambda one: (one[1].last, one[0])) for inside in files.values()]
    order = [number for inside in ordered for number, _, _ in inside]
    is_told_in_order = order == sorted(order)
    return tuple(
        _excerpt([(place, Note(says, None if is_told_in_order else number)) for number, place, says in inside], source)
        for inside in ordered
    )


def _excerpt(inside: list[tuple[Place, Note]], source: str | None) -> Excerpt:
    culprits = [place for place, _ in inside if _is_at(place, source)]
    first = min(culprits or (place for place, _ in inside), key=lambda place: place.line)
    return Excerpt(first.file, first.line, tuple(_rows(inside, culprits)))


def _rows(inside: list[tuple[Place, Note]], culprits: list[Place]) -> Iterator[Row]:
    """Yield the lines to show of one file."""
    source = _source(inside[0][0].file)
    known = [place for place, _ in inside if _fits(place, source)]
    unread = {place.line: place.text for place, _ in inside if place not in known}
    notes: dict[int, list[Note]] = {}
    part: dict[int, Literal["culprit", "involved", "context"]] = {}
    for place, note in inside:
        lines = _lines(place) if place in known else [place.line]
        notes.setdefault(lines[-1], []).append(note)
        for line in lines:
            part[line] = "culprit" if place in culprits or part.get(line) == "culprit" else "involved"
    shown = sorted(_around(known, source) | unread.keys())
    texts = {n: unread[n] if n in unread else _printable(source[n - 1]) for n in shown}
    margin = min((len(t) - len(t.lstrip(" ")) for n, t in texts.items() if t and n not in unread), default=0)
    one_line = {place.line for place, _ in inside if place.line == place.last}
    before = None
    for n in shown:
        if before is not None and n > before + 1:
            yield Row(None)
        text = texts[n] if n in unread else texts[n][margin:]
        said, alone = tuple(notes.get(n, ())), part.get(n) == "culprit" and n in notes
        yield Row(n, text, part.get(n, "context"), said, _span(text, said) if alone and n in one_line else None)
        before = n


def _around(known: list[Place], source: list[str]) -> set[int]:
    """The statements' own lines and those next to them, with small gaps filled, without blank lines at the edges."""
    own = {line for place in known for line in _lines(place)}
    before = (n for place in known for n in range(place.line - CONTEXT, place.line))
    after = (n for place in known for n in range(place.last + 1, place.last + 1 + CONTEXT))
    near = sorted(n for n in {*own, *before, *after} if 0 < n <= len(source))
    keep = set(near)
    for ends, step in ((near, 1), (near[::-1], -1)):
        for n in ends:
            if n not in own and n - step not in keep and not source[n - 1].strip():
                keep.discard(n)
    for one, following in pairwise(sorted(keep)):
        if following - one - 1 <= _BRIDGED:
            keep.update(range(one + 1, following))
    return keep


def _lines(place: Place) -> list[int]:
    lines = list(range(place.line, place.last + 1))
    return lines if len(lines) <= _LONGEST else [*lines[: _LONGEST - 2], lines[-1]]


def _fits(place: Place, source: list[str]) -> bool:
    """Whether the file still has this statement at this line: it may have been edited since the program started."""
    if not place.text or place.last > len(source):
        return False
    word = re.search(r"\w+", place.text)
    return word is None or word[0] in source[place.line - 1]


def _source(file: str) -> list[str]:
    if os.path.exists(file) and not os.path.isfile(file):  # a device or a pipe, which may have no end
        return []
    try:
        linecache.checkcache(file)
        return linecache.getlines(file)
    except Exception:  # unreadable, not text, a loader that raises: the statements' own text has to do
        return []


def _printable(line: str) -> str:
    line = line.rstrip().expandtabs(4)
    line = "".join(char if char.isprintable() else " " for char in line)
    return line if len(line) <= _WIDEST else line[: _WIDEST - 1] + "…"
