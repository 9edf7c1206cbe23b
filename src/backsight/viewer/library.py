"""The runs that a viewer shows: those below one folder, each by a name; and their answers."""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from backsight.runs import NotInRun, Run, RunError, RunNotFound, RunWarning, open_run
from backsight.runs.opening import holds_a_trace, identity, no_folder, run_folders
from backsight.tables.listing import files
from backsight.viewer.question import HOMES, Answer, Asked, BadQuestion, answering
from backsight.viewer.searching import Forgotten, Search, Told

FRESH = 2.0
"""Seconds for which a listing of the folder holds."""

COMPARE = "compare"
"""The one question that is about two runs."""

LONGEST_ANSWER = 1200
"""Characters of what is said of a question that cannot be answered."""

ABOUT = "about"
"""The one question that says what ranks there are."""

FINDINGS = "findings"
"""The one question that reads all of a run."""

FIRST = (ABOUT, "heatmap", "metrics")
"""What a page asks before it shows anything: while the answers hold, they are given again."""


class NoSuchThing(LookupError):
    """There is no run of this name, or no such question."""


class Library:
    """The runs below a folder, or a single run, as pages ask for them.

    ```python
    library = Library("runs")
    library.names()                                       # ["2026-11-21-digits", ...], the newest first
    library.ask("2026-11-21-digits", "heatmap", {"stat": "norm", "kind": "grad"})
    ```

    A run is looked up in the listing by its whole name, so that no name leads elsewhere on the disk.

    Raises:
        RunNotFound: if there is no such folder.
        NotARun: if it is a trace.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._turn = threading.Lock()
        self._runs: dict[str, Run] = {}
        self._identities: WeakKeyDictionary[Run, tuple[int, object]] = WeakKeyDictionary()
        self._unreadable: dict[str, str] = {}
        self._searches: WeakKeyDictionary[Run, tuple[Any, Search]] = WeakKeyDictionary()
        self._kept = Kept()
        self._listed = -FRESH
        self.single: str | None = None
        if (run := self._single()) is not None:
            self.single = run.path.resolve().name
            self._runs[self.single] = run
            self._noted(run)
        self.names()

    def names(self) -> list[str]:
        """Return the names of the runs, the newest first: their paths below the folder."""
        with self._turn:
            if time.monotonic() - self._listed >= FRESH:
                self._runs, self._unreadable = self._found()
                self._listed = time.monotonic()
            return list(self._runs)

    def unreadable(self) -> dict[str, str]:
        """Return why each of the other runs below the folder cannot be shown, by its name."""
        self.names()
        return {name: why for name, why in self._unreadable.items() if (self.path / name).is_dir()}

    def run(self, name: str) -> Run:
        """Return a run by its name.

        Raises:
            NoSuchThing: if there is none.
        """
        if name not in self._runs or self._is_replaced(self._runs[name]):
            with self._turn:
                self._listed = -FRESH
            self.names()
        try:
            return self._runs[name]
        except KeyError:
            raise NoSuchThing(f"There is no run {name[:200]!r} in {self.path}.") from None

    def ask(self, name: str, question: str, given: Mapping[str, str]) -> Answer:
        """Answer a question about a run.

        Raises:
            NoSuchThing: if there is no such run or question.
            BadQuestion: if a parameter is not what it has to be, or the run does not hold what was asked for.
        """
        if question != COMPARE and question not in HOMES:
            there = ", ".join((*HOMES, COMPARE))
            raise NoSuchThing(f"There is no question {question[:200]!r}; choose from {there}.")
        run = self.run(name)
        asked = Asked(given)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RunWarning)  # damage is part of the answer
                if question == COMPARE:
                    from backsight.viewer.answers.comparing import compared

                    return compared(asked.of(run), asked.of(self.run(asked.word("with"))), asked)
                if question == FINDINGS:
                    return self._searched(run.overview, asked)
                find = partial(answering(question), run if question == ABOUT else asked.of(run), asked)
                return self._kept.answer(run, question, given, find) if question in FIRST else find()
        except (NotInRun, ValueError) as error:
            raise BadQuestion(_cut(str(error))) from error

    def warm(self) -> None:
        """Answer what a page asks first of the newest run, so that the first one need not wait until that is read.

        Whatever cannot be answered is told to the page that asks for it.
        """
        for name in self.names()[:1]:
            with suppress(Exception):
                kind = self.ask(name, ABOUT, {})["kinds"][0]
                stat = "std" if kind in ("output", "input") else "l2"  # as heatmap.js has it
                self.ask(name, "heatmap", {"kind": kind, "stat": stat, "columns": "600"})

    def difference(self, name: str, other: str) -> str:
        """Return a page on where two runs that were traced diverge, operation by operation.

        Raises:
            NoSuchThing: if there is no such run.
            BadQuestion: if one of them has no trace, or one that cannot be read.
        """
        from backsight.traces import TraceError, diff  # which imports torch

        a, b = self.run(name), self.run(other)
        try:
            return replace(diff(a.path, b.path), a=name, b=other).html()
        except TraceError as error:
            raise BadQuestion(_cut(str(error))) from error

    def _searched(self, run: Run, asked: Asked) -> Answer:
        """Look for findings once for each state of a run, however often a page asks; `patience` is in milliseconds.

        A search that is under way goes on while the run grows, else that of a long one would never end.
        """
        patience = asked.number("patience", None, 0, 60_000)
        newest = len(run.steps), run.damage
        while True:
            with self._turn:
                held = self._searches.get(run)
                if held is None or (held[1].ended and (held[0] != newest or held[1].failed)):
                    held = self._searches[run] = newest, Search(partial(_found, run))
            try:
                return held[1].answer(math.inf if patience is None else patience / 1e3)
            except Forgotten:
                continue

    def _single(self) -> Run | None:
        """Return the run, if the path is one rather than a folder of some."""
        try:
            return open_run(self.path)
        except RunError:
            if holds_a_trace(self.path):
                raise
            return None

    def _found(self) -> tuple[dict[str, Run], dict[str, str]]:
        if self.single is not None:
            return {self.single: self._opened(self.single, self.path)}, {}
        if not self.path.is_dir():
            raise no_folder(self.path)
        found, unreadable = dict[str, Run](), dict[str, str]()
        for path in run_folders(self.path):
            name = path.relative_to(self.path).as_posix()
            try:
                found[name] = self._opened(name, path)
            except RunNotFound:  # it has just been removed
                continue
            except RunError as error:
                unreadable[name] = str(error)
        return dict(sorted(found.items(), key=lambda pair: (pair[1].created, pair[0]), reverse=True)), unreadable

    def _opened(self, name: str, path: Path) -> Run:
        """Return the run of a name as it is known already, unless another has been recorded in its place."""
        run = self._runs.get(name)
        if run is None or self._is_replaced(run):
            run = Run(path)
            self._noted(run)
        return run

    def _noted(self, run: Run) -> None:
        """Note what tells this run from another that is recorded in its place later."""
        rank = min(run.ranks, default=0)
        self._identities[run] = rank, identity(run.path, rank)

    def _is_replaced(self, run: Run) -> bool:
        rank, then = self._identities.get(run, (0, None))
        now = identity(run.path, rank)
        return now is not None and now != then


def _found(run: Run, told: Told) -> Answer:
    from backsight.viewer.answers.findings import findings_of

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        return findings_of(run, told)


def _cut(text: str) -> str:
    """Return a text without its middle, if a name in it is longer than anybody reads."""
    return text if len(text) <= LONGEST_ANSWER else f"{text[: LONGEST_ANSWER // 2]} … {text[-LONGEST_ANSWER // 2 :]}"


MOST = 8
"""Answers that are kept, the last ones that were asked for: a picture of very many tensors takes 7 MB."""

Key = tuple[int, str, tuple[tuple[str, str], ...]]


@dataclass
class _Held:
    turn: threading.Lock = field(default_factory=threading.Lock)
    state: object = None
    answer: Answer | None = None


class Kept:
    """The answers that were given last, of runs that have ended. Who asks while another finds the same waits for it."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._numbers: WeakKeyDictionary[Run, int] = WeakKeyDictionary()
        self._count = 0
        self._held: OrderedDict[Key, _Held] = OrderedDict()

    def answer(self, run: Run, question: str, given: Mapping[str, str], find: Callable[[], Answer]) -> Answer:
        """Return what `find` returns, or has returned when nothing of the run was different."""
        size, written, is_open = files(run.path)
        if is_open:
            return find()
        state = size, written, run.damage
        held = self._place(run, question, given)
        with held.turn:
            if held.answer is None or held.state != state:
                held.answer, held.state = find(), state
            return held.answer

    def _place(self, run: Run, question: str, given: Mapping[str, str]) -> _Held:
        with self._turn:
            if run not in self._numbers:  # not its id, which another may get
                self._numbers[run] = self._count = self._count + 1
            key = self._numbers[run], question, tuple(sorted(given.items()))
            held = self._held.setdefault(key, _Held())
            self._held.move_to_end(key)
            while len(self._held) > MOST:
                self._held.popitem(last=False)
            return held
