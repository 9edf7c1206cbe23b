"""What a run holds as one object each: the autograd graph of a step, and the memory of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from backsight.runs import places
from backsight.runs.errors import DamagedRun
from backsight.runs.rank import Rank

# These rooms stand beside and above the store, which must not need them: they are looked up when somebody asks.
_READERS = {
    places.GRAPH: ("backsight.tape", "graph_of"),
    places.MEMORY: ("backsight.memory", "memory_of"),
}


@dataclass(frozen=True)
class Stored:
    """Something that was stored of a step."""

    step: int
    value: Any


class Documents:
    """Reads such an object when it is asked for, and again when another has been stored."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[object, Stored]] = {}

    def graph(self, ranks: Mapping[int, Rank]) -> Stored | None:
        """Return the graph, a `backsight.Graph`, of the lowest rank that has one."""
        return self._read(ranks, places.GRAPH)

    def memory(self, ranks: Mapping[int, Rank]) -> Stored | None:
        """Return the memory, a `backsight.memory.StepMemory`, of the lowest rank that has one."""
        return self._read(ranks, places.MEMORY)

    def _read(self, ranks: Mapping[int, Rank], name: str) -> Stored | None:
        for rank in ranks.values():
            held = rank.document(name)
            if held is None:
                continue
            stamp = (rank.number, held.stamp)
            known = self._known.get(name)
            if known is None or known[0] != stamp:
                room, reader = _READERS[name]
                try:
                    value = getattr(import_module(room), reader)(held.held)
                except Exception as error:  # whatever stands in it, the rest of the run can be read
                    raise DamagedRun(f"{rank.folder / name} is damaged: {error}.") from error
                known = self._known[name] = stamp, Stored(held.step, value)
            return known[1]
        return None
