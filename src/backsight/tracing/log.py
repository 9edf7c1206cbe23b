"""The log of a watch: what its hooks, tracers and modes write, and its answers are read from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from types import FrameType
from typing import Protocol

from backsight.tracing import looks_at_losses, looks_at_values  # noqa: F401  # each enters itself
from backsight.tracing.axes import Axes
from backsight.tracing.backwards import BackwardLog
from backsight.tracing.captures import Captures
from backsight.tracing.changes import ChangeLog
from backsight.tracing.draws import Draws
from backsight.tracing.facts import End, Line, Met, Operation, Part, Severed
from backsight.tracing.flow import DETACHED, Cut, Flow
from backsight.tracing.inside import Inside
from backsight.tracing.intervals import Intervals, Threads
from backsight.tracing.meetings import Meetings
from backsight.tracing.peculiar import Peculiarities
from backsight.tracing.ranges import Ranges
from backsight.tracing.sites import Sites, positions
from backsight.tracing.spots import Spots
from backsight.tracing.stops import Stops


class Errors(Protocol):
    """Who wants to know of errors that calls into PyTorch raise."""

    def raised(self, error: BaseException, frame: FrameType | None) -> None: ...

    def went_on(self) -> None: ...


class Log:
    """Which nodes were made where, by thread; every backward; what was changed and cut off.

    `fail` is called with a failure of ours; `budget` is how many calls are noted yet, None for all. `errors` is told of
    what calls raise, and of backwards that begin, if there is one.
    """

    def __init__(self, fail: Callable[[BaseException], None]) -> None:
        self.fail = fail
        self.budget: int | None = None
        self.errors: Errors | None = None
        self.sites = Sites()
        self.spots = Spots()
        self.threads = Threads()
        self.backwards = BackwardLog(self.threads, self.sites)
        self.changes = ChangeLog(self.sites)
        self.flow = Flow(self.sites)
        self.axes = Axes(self.sites)
        self.draws = Draws(self.sites)
        self.captures = Captures()
        self.ranges = Ranges(self.sites)
        self.meetings = Meetings(self.flow, lambda: self.backwards.count)
        self.peculiarities = Peculiarities(self.sites)
        self.stops = Stops(fail)
        self.inside = Inside()

    def line_of(self, sequence: int, thread: int | None = None) -> Line | None:
        """Return the line that made a node."""
        number = self._number(sequence, thread)
        return self.sites.line(number) if number else None

    def operation_of(self, sequence: int, thread: int | None = None) -> Operation | None:
        """Return the call that made a node, if it was seen as one."""
        found = self.threads.of(sequence, thread)
        at = found[1].at(sequence) if found else None
        if found is None or at is None:
            return None
        number = found[1].site[at]
        site, line = self.sites.get(number), self.sites.line(number)
        if site is None or line is None or site.lasti < 0:
            return None
        operands = self.sites.operands(number)
        return Operation(site.op, line, operands, found[1].first[at], found[1].end[at], found[0], site.via)

    def made_in(self, sequence: int, name: str) -> int | None:
        """Return the thread that made a node, given its class too: each thread counts for itself.

        None is left to the number alone. The last node of a call is that of its result, whose class may show that it
        is of another thread; -1 if only that this one has not made it.
        """
        fits = {thread: self._fits(table, sequence, name) for thread, table in self.threads.holding(sequence)}
        may_be_here = self.threads.here().covers(sequence)
        here = fits.pop(get_ident(), None)
        found = [] if here else [each for each, fit in fits.items() if fit or (fit is None and not may_be_here)]
        return found[0] if len(found) == 1 else -1 if here is False else None

    def _fits(self, table: Intervals, sequence: int, name: str) -> bool | None:
        """Whether the call of a thread that made a node of this number has such a result; None if it is not known."""
        at = table.at(sequence)
        results = self.sites.results.get(table.site[at]) if at is not None and table.end[at] == sequence + 1 else None
        return name in results if results else None

    def met(self, sequences: Sequence[int]) -> dict[int, Met]:
        """Return what met at the calls that made these nodes, by the first node of each call."""
        if not self.meetings.found:
            return {}
        told: dict[int, Met] = {}
        numbers: set[int] = set()
        for sequence in sorted(sequences):
            number = self._number(sequence, None)
            meeting = self.meetings.found.get(number)
            line = self.sites.line(number) if meeting is not None and number not in numbers else None
            if meeting is None or line is None:
                continue
            numbers.add(number)
            cuts = tuple(map(self.ends, meeting.cuts))
            told[sequence] = Met(
                meeting.op,
                line,
                meeting.shapes,
                self._texts(number),
                meeting.column,
                meeting.row,
                meeting.term,
                cuts,
                meeting.reach,
                meeting.same,
                meeting.target,
                meeting.repeats,
                *self._made(*meeting.made),
            )
        return told

    def _made(self, site: int, column: int) -> tuple[Line | None, tuple[str, str]]:
        """The line that made a square, and how the program wrote what it came of, the N×1 first."""
        one, other = self._texts(site) if site else ("", "")
        return self.sites.line(site) if site else None, (other, one) if column else (one, other)

    def _texts(self, site: int) -> tuple[str, str]:
        """How the program wrote the first two operands of a call."""
        texts = {operand.position: operand.text for operand in self.sites.operands(site)}
        return texts.get(0, ""), texts.get(1, "")

    def ends(self, cut: Cut) -> End:
        """Tell a cut, with the leaves that the gradient would have gone to, and when it was made last."""
        return self.flow.told(cut), self.meetings.ended.get(cut.site, ()), self.meetings.latest.get(cut.site, 0)

    def repeated(self) -> list[tuple[Severed, list[Part], int]]:
        """Tell the cuts that were made more than once: what the program detached, with each of the first times."""
        cuts = (cut for cut in self.flow.made() if cut.by in ("detach", "data"))
        parts = ((cut, self.meetings.parts.get(cut.site, [])) for cut in cuts)
        latest = self.meetings.latest
        return [(self.flow.told(cut), each, latest.get(cut.site, 0)) for cut, each in parts if len(each) > 1]

    def _number(self, sequence: int, thread: int | None) -> int:
        found = self.threads.of(sequence, thread)
        at = found[1].at(sequence) if found else None
        return found[1].site[at] if found and at is not None else 0

    def sources(self, sequences: Sequence[int]) -> list[str | None]:
        """Return `file:line` for the nodes of one graph, whose numbers are in any order; for captures."""
        if not sequences or self.threads.of(max(sequences), None) is None:
            return []
        told: dict[int, str | None] = {}
        out = []
        for sequence in sequences:
            number = self._number(sequence, None)
            if number not in told:
                site = self.sites.get(number)
                told[number] = f"{site.code.co_filename}:{positions(site)[0]}" if site is not None else None
            out.append(told[number])
        return out

    def severed(self, sequences: Sequence[int]) -> dict[int, tuple[tuple[str, str, str], ...]]:
        """Return the cuts behind the operands of calls, by the first of the nodes that a call made; for captures."""
        told: dict[int, tuple[tuple[str, str, str], ...]] = {}
        calls: set[tuple[int, int]] = set()
        for sequence in sorted(sequences) if self.meetings.found else ():
            found = self.threads.of(sequence, None)
            at = found[1].at(sequence) if found else None
            if found is None or at is None or (found[0], at) in calls:
                continue
            calls.add((found[0], at))
            meeting = self.meetings.found.get(found[1].site[at])
            ends = [self.flow.told(cut) for cut in meeting.cuts if cut.by in DETACHED] if meeting is not None else []
            if ends:
                told[sequence] = tuple(
                    (end.by, end.operand, f"{end.line.file}:{end.line.line}" if end.line else "") for end in ends
                )
        return told
