"""Which of the changes that fixes ask for make the program run: one is tried after the other, and upon one another."""

from __future__ import annotations

import tokenize
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from backsight.fixing.trial import Fault, Outcome
from backsight.naming.roots import is_library
from backsight.source.edits import Alternative, EditError, edited

_DEEPEST = 5
"""Errors that are mended one after the other."""

Trial = Callable[[Mapping[str, str]], Outcome]


@dataclass(frozen=True)
class Tried:
    """A program as some edits have it.

    texts: its edited files, by path.
    outcome: what came of running it.
    of: the fault whose fix was tried last.
    edits: that fix.
    before: what that was tried upon.
    """

    texts: Mapping[str, str]
    outcome: Outcome
    of: Fault | None = None
    edits: Alternative = ()
    before: Tried | None = None

    @property
    def depth(self) -> int:
        return 0 if self.before is None else self.before.depth + 1

    @property
    def is_clean(self) -> bool:
        return not self.outcome.failed and not self.outcome.silent

    @property
    def helped(self) -> bool:
        """Whether the fault is gone, and no other has come that was not there before, unless that ended the run."""
        if self.of is None or self.before is None:
            return False
        after, failed = self.outcome, self.before.outcome.failed
        if any(each.is_like(self.of) for each in after.faults) or (after.failed and not failed):
            return False
        return (
            after.failure is not None if after.failed else failed or len(after.silent) < len(self.before.outcome.silent)
        )


@dataclass
class Search:
    """Tries fixes, depth first, until the program runs and nothing is found in it.

    try_: runs the program with these texts.
    most: how many runs there may be.
    tell: is called with each that was tried, as it ends.
    """

    try_: Trial
    most: int
    tell: Callable[[Tried], None]
    best: Tried | None = None
    runs: int = 0
    read: dict[str, str] = field(default_factory=dict)
    """The files that were to be edited, as they were when that was tried first."""
    _seen: set[tuple[tuple[str, str], ...]] = field(default_factory=set)

    def from_(self, start: Outcome) -> Tried | None:
        """Return the best program that was found; None if no change has helped."""
        self._go_on(Tried({}, start))
        return self.best

    def _go_on(self, at: Tried) -> bool:
        """Whether a program was found that runs without a fault."""
        for fault, alternative in _asked(at.outcome):
            texts = self._with(alternative, at.texts)
            if texts is None or (key := tuple(sorted(texts.items()))) in self._seen:
                continue
            if self.runs == self.most:
                return False
            self._seen.add(key)
            self.runs += 1
            tried = Tried(texts, self.try_(texts), fault, alternative, at)
            self.tell(tried)
            if not tried.helped:
                continue
            self.best = tried if self.best is None else min(self.best, tried, key=_rank)
            if tried.is_clean or (tried.depth < _DEEPEST and self._go_on(tried)):
                return True
        return False

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


def _rank(tried: Tried) -> tuple[bool, int, int]:
    return tried.outcome.failed, len(tried.outcome.silent), -tried.depth


def _asked(outcome: Outcome) -> Iterator[tuple[Fault, Alternative]]:
    """Each change that can be tried: for the error that ended the run; else for what was found, the gravest first."""
    faults = [outcome.failure] if outcome.failure is not None else [] if outcome.failed else outcome.silent
    return ((fault, alternative) for fault in faults for alternative in fault.edits if not _is_others(alternative))


def _is_others(alternative: Alternative) -> bool:
    return any(is_library(edit.file) for edit in alternative)


def read(file: str) -> str | None:
    """Return the text of a source file; None if it cannot be read."""
    try:
        with tokenize.open(file) as text:
            return text.read()
    except (OSError, SyntaxError, UnicodeError):
        return None
