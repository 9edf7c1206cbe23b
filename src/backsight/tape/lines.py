"""What something that runs beside the program has noted of a node: the line that made it, and what was detached."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from backsight.tape._torch import NO_SEQUENCE
from backsight.tape.graph import Cut, Graph

LONGEST_LINE = 200
"""Characters that are kept of a line."""


class LineLog(Protocol):
    """What knows lines by sequence number."""

    def sources(self, sequences: Sequence[int]) -> Sequence[str | None]:
        """Return `file:line` for each of the nodes of one graph; nothing at all if they are not known."""

    def severed(self, sequences: Sequence[int]) -> Mapping[int, tuple[Cut, ...]]:
        """Return by what the gradient is kept from operands of these nodes, by the number of a node."""


_active: list[weakref.ref[LineLog]] = []
"""The newest last. Sequence numbers begin anew in each thread, so an older log may know others by the same numbers."""


def announce_lines(log: LineLog) -> None:
    """Let captures ask `log`, for as long as somebody holds it."""
    _active.append(weakref.ref(log, _active.remove))


def with_lines(graph: Graph) -> Graph:
    """Return `graph` with the lines that made its nodes, as far as a log knows them."""
    if not _active:
        return graph
    order = np.flatnonzero(graph.columns.sequence != NO_SEQUENCE).tolist()
    sequences = graph.columns.sequence[order].tolist()
    for log in (log for reference in reversed(_active) if (log := reference()) is not None):
        sources = log.sources(sequences)
        if any(sources):
            lines: list[str | None] = [None] * len(graph)
            for i, source in zip(order, sources, strict=True):
                lines[i] = source
            index = dict(zip(sequences, order, strict=True))
            cuts = {index[number]: found for number, found in log.severed(sequences).items()}
            return replace(graph, lines=tuple(lines), cuts=cuts, code=_code(lines))
    return graph


def _code(lines: Iterable[str | None]) -> dict[str, str]:
    """Return the text of these lines: a program may be another when its recording is looked at."""
    found = {}
    for source in dict.fromkeys(filter(None, lines)):
        file, _, number = source.rpartition(":")
        if number.isdecimal() and (text := linecache.getline(file, int(number)).strip()[:LONGEST_LINE]):
            found[source] = text
    return found
