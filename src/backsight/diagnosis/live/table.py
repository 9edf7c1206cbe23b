"""Live graphs as tables: in colour on a terminal, plain elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from backsight.diagnosis.live.graphs import Held, LiveGraph, LiveGraphs
from backsight.diagnosis.wording import shaped
from backsight.text import PIPED, counted, for_stdout, size

if TYPE_CHECKING:
    from backsight.text.rich import RenderableType, Table

_ROWS = 20
_SHORTEST = 24
_GAP = 3

_NAMES = 3
"""Variables that are told of one graph."""


def as_text(shown: LiveGraphs | Growth) -> str:
    """Return what `print` shows: in colour and as wide as the terminal where the output is one, else plain."""
    from backsight.text.console import printed

    def render(terminal: bool, color: bool) -> str:
        return printed(shown, width=get_terminal_size().columns if terminal else PIPED, color=color)

    return for_stdout(render)


def of_graphs(live: LiveGraphs, width: int) -> Iterator[RenderableType]:
    """Yield what is alive: a line that sums up, and a row for each holder."""
    from backsight.text.rich import Text

    if not live.held:
        yield Text("No autograd graph is alive.", "green")
        return
    graphs, nodes = counted(len(live), "live graph"), counted(live.nodes, "operation")
    yield Text(f"{graphs}, {nodes}, {size(live.bytes)} kept for backward", "bold")
    aged = any(_age(each.newest) for each in live.held)
    placed = any(each.newest.line for each in live.held)
    headings = ["held by", "graphs", "operations", "pinned", *["age"] * aged, "newest result", *["made at"] * placed]
    rows = [
        [
            _holder(each),
            f"{len(each.graphs):,}",
            f"{each.nodes:,}",
            "freed" if each.newest.freed and not each.bytes else size(each.bytes),
            *[_age(each.newest) or "?"] * aged,
            f"{each.newest.op} {shaped(each.newest.shape)}",
            *[each.newest.line or "?"] * placed,
        ]
        for each in live.held[:_ROWS]
    ]
    yield _table(headings, rows, width, numbers=4 + aged)
    if len(live.held) > _ROWS:
        yield Text(f"and {counted(len(live.held) - _ROWS, 'more holder')}, each with less", "dim")


def of_growth(growth: Growth, width: int) -> Iterator[RenderableType]:
    """Yield what has grown."""
    from backsight.text.rich import Text

    if not growth.grown:
        yield Text("No graph has grown and none is new.", "green")
        return
    yield Text(
        f"{growth.graphs:+,} graphs, {growth.nodes:+,} operations, {_signed(growth.bytes)} kept for backward", "bold"
    )
    rows = [
        [_holder(each.held), f"{each.graphs:+,}", f"{each.nodes:+,}", _signed(each.bytes)]
        for each in growth.grown[:_ROWS]
    ]
    yield _table(["held by", "graphs", "operations", "pinned"], rows, width, numbers=4)
    if len(growth.grown) > _ROWS:
        yield Text(f"and {counted(len(growth.grown) - _ROWS, 'more holder')}", "dim")


def _holder(held: Held) -> str:
    others = [name.path for name in held.newest.names[1:_NAMES]] if len(held.graphs) == 1 else []
    return ", ".join([held.name, *others]) if held.name else f"no variable (its newest operation is {held.newest.op})"


def _age(graph: LiveGraph) -> str:
    if graph.steps is not None:
        return "this step" if not graph.steps else counted(graph.steps, "step")
    return "" if graph.backwards is None else counted(graph.backwards, "backward")


def _signed(count: int) -> str:
    return f"{'-' if count < 0 else '+'}{size(abs(count))}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, numbers: int) -> Table:
    """Return a table whose first column gives way where there is no room; numbers are never cut."""
    from backsight.text.rich import Table, Text, box

    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    room = width - sum(each + _GAP for each in widths[1:]) - _GAP
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(
            heading,
            justify="right" if 0 < number < numbers else "left",
            style="cyan" if not number else None,
            no_wrap=bool(number),
            overflow="fold",
            max_width=None if number else max(_SHORTEST, room),
        )
    for row in rows:
        table.add_row(*map(Text, row))  # brackets are names, not markup
    return table


# What there is more of at one moment than there was at another.


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
