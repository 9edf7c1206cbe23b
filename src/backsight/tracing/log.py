"""The log of a watch: what its hooks, tracers and modes write, and its answers are read from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from backsight.tracing.backwards import BackwardLog
from backsight.tracing.facts import Line
from backsight.tracing.intervals import Threads
from backsight.tracing.sites import Sites


class Log:
    """Which nodes were made where, by thread; and every backward. `fail` is called with a failure of ours."""

    def __init__(self, fail: Callable[[Exception], None]) -> None:
        self.fail = fail
        self.sites = Sites()
        self.threads = Threads()
        self.backwards = BackwardLog(self.threads, self.sites)

    def line_of(self, sequence: int, thread: int | None = None) -> Line | None:
        """Return the line that made a node."""
        found = self.threads.of(sequence, thread)
        at = found[1].at(sequence) if found else None
        return self.sites.line(found[1].site[at]) if found and at is not None else None

    def sources(self, sequences: Sequence[int]) -> list[str | None]:
        """Return `file:line` for the nodes of one graph, whose numbers are in any order; for captures."""
        if not sequences or self.threads.of(max(sequences), None) is None:
            return []
        told: dict[int, str | None] = {}
        out = []
        for sequence in sequences:
            found = self.threads.of(sequence, None)
            at = found[1].at(sequence) if found else None
            site = found[1].site[at] if found and at is not None else 0
            if site not in told:
                line = self.sites.line(site)
                told[site] = None if line is None else f"{line.file}:{line.line}"
            out.append(told[site])
        return out
