"""What there is more of at one moment than there was at another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backsight.diagnosis.live.graphs import Held, LiveGraphs

if TYPE_CHECKING:
    from backsight.text.rich import Console, ConsoleOptions, RenderResult


@dataclass(frozen=True)
class Grown:
    """A variable that holds more than it did: by so many graphs, operations and bytes.

    `kept` says that the oldest of what it held is still there, so that it adds and drops nothing.
    """

    held: Held
    graphs: int
    nodes: int
    bytes: int
    kept: bool

    @property
    def name(self) -> str:
        return self.held.name


@dataclass(frozen=True)
class Growth:
    """The difference between two moments: what holds more now, the most first, and the sums of everything."""

    grown: tuple[Grown, ...]
    graphs: int
    nodes: int
    bytes: int

    def __bool__(self) -> bool:
        return bool(self.grown)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from backsight.diagnosis.live.table import of_growth

        yield from of_growth(self, options.max_width)

    def __str__(self) -> str:
        from backsight.diagnosis.live.table import as_text

        return as_text(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def growth(before: LiveGraphs, after: LiveGraphs) -> Growth:
    """Compare two moments, by what holds the graphs."""
    known = {each.newest.holder: each for each in before.held}
    grown = []
    for now in after.held:
        then = known.get(now.newest.holder)
        nodes = now.nodes - (then.nodes if then else 0)
        if nodes <= 0:
            continue
        more = len(now.graphs) - (len(then.graphs) if then else 0)
        kept = then is not None and now.first == then.first
        grown.append(Grown(now, more, nodes, now.bytes - (then.bytes if then else 0), kept))
    grown.sort(key=lambda each: (-each.bytes, -each.nodes))
    return Growth(tuple(grown), len(after) - len(before), after.nodes - before.nodes, after.bytes - before.bytes)
