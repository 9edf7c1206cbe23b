"""The backwards of a program: where each was called, and which nodes were there when it began."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backsight.tape import ENGINE_CALLS
from backsight.tape import EngineCall as Call
from backsight.tracing._torch import next_number
from backsight.tracing.facts import Backward
from backsight.tracing.intervals import Threads
from backsight.tracing.sites import Sites

KEPT = 1000
"""The latest backwards that are kept."""

CODES: Mapping[Any, Call] = {code: call for code, (call, _) in ENGINE_CALLS.items()}
"""The code of the functions that run a backward. `Tensor.backward` calls the second."""

NAMES = frozenset(code.co_name for code in CODES)


@dataclass(slots=True)
class Entry:
    """A backward as it is noted; see `Backward`."""

    index: int
    call: Call
    site: int
    thread: int
    marks: dict[int, int]
    retain_graph: bool | None
    create_graph: bool | None
    done: bool = False


class BackwardLog:
    """Notes the outermost backward of each thread; one that a hook or a checkpoint runs inside belongs to it."""

    def __init__(self, threads: Threads, sites: Sites) -> None:
        self._threads, self._sites = threads, sites
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._running = threading.local()
        self.count = 0

    def begin(self, call: Call, site: int, given: Mapping[str, Any]) -> Entry | None:
        """Note that a backward begins; None if one is running in this thread already. To be given to `end`."""
        if getattr(self._running, "depth", 0):
            self._running.depth += 1
            return None
        self._running.depth = 1
        self._sites.walk_again()
        thread = threading.get_ident()
        marks = {**self._threads.marks(), thread: next_number()}
        entry = Entry(
            self.count, call, site, thread, marks, _flag(given, "retain_graph"), _flag(given, "create_graph") or False
        )
        self._entries.append(entry)
        self.count += 1
        return entry

    def end(self, entry: Entry | None, done: bool) -> None:
        """Note that the backward for which `begin` returned `entry` has ended; not `done` if it raised."""
        self._running.depth = max(getattr(self._running, "depth", 0) - 1, 0)
        if entry is not None:
            entry.done = done

    def told(self) -> tuple[Backward, ...]:
        """Return what was noted, oldest first."""
        return tuple(map(self._told, list(self._entries)))

    def before(self, sequence: int, thread: int) -> Backward | None:
        """Return the first backward that began after the node `sequence` of `thread` was made."""
        entries = list(self._entries)
        found = next((e for e in entries if e.marks.get(thread, -1) > sequence), None)
        if found is None or (found is entries[0] and found.index > 0):  # those before it are forgotten
            return None
        return self._told(found)

    def _told(self, entry: Entry) -> Backward:
        line = self._sites.line(entry.site)
        flags = entry.retain_graph, entry.create_graph
        return Backward(entry.index, entry.call, line, entry.thread, dict(entry.marks), *flags, entry.done)


def _flag(given: Mapping[str, Any], name: str) -> bool | None:
    value = given.get(name)
    return value if type(value) is bool else None
