"""What a run holds as one object each: the autograd graph of a step, and the memory of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backsight.runs import places
from backsight.runs.errors import DamagedRun
from backsight.runs.rank import Rank

if TYPE_CHECKING:
    from backsight.memory import StepMemory
    from backsight.tape import Graph


# These rooms stand beside and above the store, which must not need them: they are imported when somebody asks, here and
# nowhere else, and the import contract names this file.


def _graph(held: Any) -> Graph:
    from backsight.tape import graph_of

    return graph_of(held)


def _memory(held: Any) -> StepMemory:
    from backsight.memory import memory_of

    return memory_of(held)


_READERS: dict[str, Callable[[Any], Any]] = {places.GRAPH: _graph, places.MEMORY: _memory}


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
                try:
                    value = _READERS[name](held.held)
                except Exception as error:  # whatever stands in it, the rest of the run can be read
                    raise DamagedRun(f"{rank.folder / name} is damaged: {error}.") from error
                known = self._known[name] = stamp, Stored(held.step, value)
            return known[1]
        return None
