"""Which of the changes that fixes ask for make the program run: one is tried after the other, and upon one another."""

from __future__ import annotations

import difflib
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from backsight.fixing.trial import Fault, Outcome
from backsight.naming.roots import is_library
from backsight.source.edits import Alternative, EditError, edited, unread

_DEEPEST = 5
"""Errors that are mended one after the other."""

_WAYS = 3
"""Changes that do, after which no further one is looked for."""

Trial = Callable[[Mapping[str, str]], Outcome]


@dataclass(frozen=True)
class Tried:
    """A program as some edits have it.

    texts: its edited files, by path.
    outcome: what came of running it.
    of: the fault whose fix was tried last.
    edits: that fix.
    before: what that was tried upon.
    without: those of the changes that it was tried upon which are left out in the end.
    unread: the names whose value nothing reads anymore, or that are new and that nothing reads.
    """

    texts: Mapping[str, str]
    outcome: Outcome
    of: Fault | None = None
    edits: Alternative = ()
    before: Tried | None = None
    without: tuple[Tried, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def depth(self) -> int:
        return 0 if self.before is None else self.before.depth + 1

    @property
    def is_clean(self) -> bool:
        return self.outcome.is_clean

    @property
    def start(self) -> Outcome:
        """How the program ends as it is."""
        return self.outcome if self.before is None else self.before.start

    @property
    def does(self) -> bool:
        """Whether nothing is left to mend: of a program that failed, what it does beside its error is not touched."""
        after = self.outcome
        mended = after.is_clean or (self.start.failed and not after.failed and not after.stopping)
        return mended and not after.trains_nothing

    @property
    def stopped(self) -> list[str]:
        """The parameters, by name, that are not trained anymore and were before the error."""
        after = self.outcome
        return [] if after.failed else [name for held, name in after.still.items() if held in self.start.moved]

    @property
    def chain(self) -> list[Tried]:
        """What this was tried upon, from the first change on, and this; without what is left out."""
        before = self.before.chain if self.before is not None else []
        return [each for each in before if each not in self.without] + ([self] if self.before is not None else [])

    @property
    def helped(self) -> bool:
        """Whether the fault is gone, and no other has come that was not there before, unless that ended the run."""
        if self.of is None or self.before is None:
            return False
        after, failed = self.outcome, self.before.outcome.failed
        if any(each.is_like(self.of) for each in after.faults) or (after.failed and not failed) or self.stopped:
            return False
        if self.depth > 1 and after.is_constant and not self.before.outcome.is_constant:
            return False
        return (
            after.failure is not None if after.failed else failed or len(after.silent) < len(self.before.outcome.silent)
        )


@dataclass
class Search:
    """Tries fixes, depth first, until the program runs and nothing is found in it, and then what else the fix offers.

    try_: runs the program with these texts.
    most: how many runs there may be.
    tell: is called with each that is tried, as it begins, and with `True` as it has ended.
    """

    try_: Trial
    most: int
    tell: Callable[[Tried, bool], None]
    ways: list[Tried] = field(default_factory=list)
    """The programs in which nothing is found, in the order of the fixes."""
    runs: int = 0
    _best: Tried | None = None
    read: dict[str, str] = field(default_factory=dict)
    """The files that were to be edited, as they were when that was tried first."""
    _seen: set[tuple[tuple[str, str], ...]] = field(default_factory=set)

    def from_(self, start: Outcome) -> Tried | None:
        """Return the best program that was found; None if no change has helped."""
        self._go_on(Tried({}, start))
        self.ways = [*map(self._smaller, sorted(self.ways, key=_rank))]
        return self.ways[0] if self.ways else self._best

    def _go_on(self, at: Tried) -> bool:
        """Whether a program was found that runs without a fault: all that a fix offers is tried by itself first."""
        for fault in _asked(at):
            helped = [*self._alternatives(at, fault)]
            if any(tried.does for tried in helped):
                return True
            for tried in sorted(helped, key=_rank):
                if tried.depth < _DEEPEST and self._go_on(tried):
                    return True
        return False

    def _alternatives(self, at: Tried, fault: Fault) -> Iterator[Tried]:
        """Try what a fix offers, and yield what has helped."""
        for alternative in fault.edits:
            texts = self._with(alternative, at.texts) if not _is_others(alternative) else None
            if texts is None or (key := tuple(sorted(texts.items()))) in self._seen:
                continue
            if self.runs == self.most or len(self.ways) == _WAYS:
                return
            self._seen.add(key)
            tried = self._run(Tried(texts, at.outcome, fault, alternative, at))
            if not tried.helped:
                continue
            if not tried.outcome.trains_nothing:
                self._best = tried if self._best is None else min(self._best, tried, key=_rank)
            if tried.does:
                self.ways.append(tried)
            yield tried

    def _run(self, tried: Tried) -> Tried:
        self.runs += 1
        self.tell(tried, False)
        loose = {name for file, text in tried.texts.items() for name in unread(text) - unread(self.read[file])}
        tried = replace(tried, outcome=self.try_(tried.texts), unread=tuple(sorted(loose)))
        self.tell(tried, True)
        return tried

    def _smaller(self, way: Tried) -> Tried:
        """The same without the changes, of those it was tried upon, that it does without."""
        for each in way.chain[:-1]:
            texts = _without(each, way.texts, self.read)
            if texts is None or self.runs == self.most:
                continue
            less = self._run(replace(way, texts=texts, without=(*way.without, each)))
            fine = less.does and not less.stopped and len(less.outcome.silent) <= len(way.outcome.silent)
            if fine and len(less.outcome.moved) >= len(way.outcome.moved):
                way = less
        return way

    def _with(self, alternative: Alternative, texts: Mapping[str, str]) -> Mapping[str, str] | None:
        """The texts with some edits; None where they do not fit."""
        for edit in alternative:
            if edit.file not in self.read and (text := read(edit.file)) is not None:
                self.read[edit.file] = text
        before = {**self.read, **texts}
        try:
            after = edited(alternative, before)
        except EditError:
            return None
        return {**texts, **after} if any(before[file] != text for file, text in after.items()) else None


def _without(step: Tried, texts: Mapping[str, str], read: Mapping[str, str]) -> Mapping[str, str] | None:
    """Some texts without what a step has changed; None where later steps have changed that again."""
    assert step.before is not None
    left = dict(texts)
    for file, text in step.texts.items():
        own = _pieces(read[file], text) - _pieces(read[file], step.before.texts.get(file, read[file]))
        pieces = _pieces(read[file], texts[file])
        if not own <= pieces:
            return None
        left[file] = _with_pieces(read[file], pieces - own)
    return {file: text for file, text in left.items() if text != read[file]}


_Piece = tuple[int, int, tuple[str, ...]]
"""Which lines of a text, from and to, are others, and these."""


def _pieces(before: str, after: str) -> set[_Piece]:
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matched = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return {(a, b, tuple(new[c:d])) for kind, a, b, c, d in matched.get_opcodes() if kind != "equal"}


def _with_pieces(text: str, pieces: set[_Piece]) -> str:
    lines = text.splitlines(keepends=True)
    for start, end, new in sorted(pieces, reverse=True):
        lines[start:end] = new
    return "".join(lines)


def _rank(tried: Tried) -> tuple[bool, int, int, bool, int]:
    after = tried.outcome
    return after.failed, len(after.still), len(after.silent), bool(tried.unread), -tried.depth


def _asked(at: Tried) -> Sequence[Fault]:
    """What is to be mended: the error that ended the run; else what was found, the gravest first.

    Of a program that failed, what is found once its error is gone is mended only if it keeps gradients from parameters.
    """
    outcome = at.outcome
    faults: Sequence[Fault] = outcome.stopping if at.start.failed else outcome.silent
    if outcome.failed:
        faults = [outcome.failure] if outcome.failure is not None else []
    return faults


def _is_others(alternative: Alternative) -> bool:
    return any(is_library(edit.file) for edit in alternative)


def read(file: str) -> str | None:
    """Return the text of a source file; None if it cannot be read."""
    try:
        with tokenize.open(file) as text:
            return text.read()
    except (OSError, SyntaxError, UnicodeError):
        return None
