"""What `print(graph)` shows: `git log --graph` for autograd, a row an operation, lanes for what is still needed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from backsight.tape import lanes, remarks
from backsight.tape.caption import MARKS, ROOT, heading, legend
from backsight.tape.cells import Style, cells, cut, harmless, padded, paint
from backsight.tape.fold import Fold, Folded, find, folded
from backsight.tape.graph import Graph
from backsight.tape.lanes import Lane
from backsight.tape.ops import op_name
from backsight.tape.rows import Rows, visible
from backsight.text import PIPED, for_stdout, size

NARROWEST = 40
MOST_LANES = 24
LANE_COLORS: tuple[Style, ...] = ("cyan", "magenta", "blue", "yellow")

_ASCII = str.maketrans("●○◆■◉│├┤└┘┼─╭╎╰⟳×‹›…·✗≠Σ", "*o##@|||\\/+-/:\\@x<>~-!#=")


def render(
    graph: Graph, *, width: int | None = None, color: bool = False, views: bool = False, fold: bool = True
) -> str:
    """Return the picture of `graph` in lines of at most `width` columns (the terminal's; at least 40).

    ```python
    print(render(backsight.graph(loss)))            # what print(backsight.graph(loss)) prints
    render(graph, views=True, fold=False)           # every operation in a line of its own
    ```
    """
    if width is None:
        width = shutil.get_terminal_size((PIPED, 24)).columns
    width = max(width, NARROWEST)
    rows = visible(graph, views=views)
    folds = find(rows) if fold else ()
    page = _Page(graph, rows, folded(rows.inputs, folds), width, color)
    notes = legend(graph, rows, folds, lanes_cut=page.lanes_cut, width=width)
    lines = [heading(graph, rows, width, color=color), page.heads(), *page.lines()]
    return "\n".join(lines + [paint(note, "dim") if color else note for note in notes])


def printed(graph: Graph) -> str:
    """Return the picture as suits where `print` goes: colour in a terminal, ASCII where nothing else can be written."""
    return for_stdout(lambda terminal, color: render(graph, width=None if terminal else PIPED, color=color), _ASCII)


@dataclass(frozen=True)
class _Columns:
    """How wide each column is, in terminal columns; 0 for one that is left out."""

    margin: int
    lanes: int
    index: int
    op: int
    shape: int
    saved: int

    @property
    def total(self) -> int:
        named = self.index + sum(column + 2 for column in (self.op, self.shape, self.saved) if column)
        return self.margin + self.lanes + named + 2


class _Page:
    """The table of rows: its columns, and the cells that many rows share."""

    def __init__(self, graph: Graph, rows: Rows, kept: Folded, width: int, color: bool):
        self.graph, self.rows, self.kept, self.width, self.color = graph, rows, kept, width, color
        self.most_lanes = max(3, min(MOST_LANES, (width - 52) // 2))
        self.drawn = lanes.lanes(kept.inputs, self.most_lanes)
        self.ops = [harmless("leaf" if t.kind == "leaf" else op_name(t.name)) for t in graph.types]
        self.written = {row: harmless(cls) for row, cls in rows.written.items()}
        self.columns = self._columns()
        self.most_saved = max(rows.saved, default=0)
        self._lane_cells: dict[tuple[Lane, str], str] = {}
        self._saved_cells: dict[tuple[int, str], str] = {}
        c = self.columns
        self._op_cells = [self._column(op, c.op) for op in self.ops]
        self._shape_cells = {s: self._column(s, c.shape, right=True) for s in set(rows.shape)}

    @property
    def lanes_cut(self) -> bool:
        return lanes.width(self.drawn) > self.most_lanes

    def _columns(self) -> _Columns:
        rows, depth = self.rows, max(self.kept.depth, default=0)
        saved = [size(n) for n in set(rows.saved) if n] + [s for s in set(rows.state) if s and "modified" not in s]
        lane_width = min(lanes.width(self.drawn), self.most_lanes + 1)
        wide = _Columns(
            margin=depth + 1 if depth else 0,
            lanes=2 * max(lane_width, 1),
            index=len(str(max(rows.node, default=0))) + 1,
            op=min(28, max([*(cells(self.ops[t]) for t in set(rows.type)), *map(cells, self.written.values()), 2])),
            shape=max([*map(cells, set(rows.shape)), 5]) if any(rows.shape) else 0,
            saved=max([*map(cells, saved), 5]) if saved else 0,
        )
        folds = [fold for closing in self.kept.closing.values() for fold in closing]
        said = max([sum(map(cells, self._repetition(fold))) + 2 for fold in folds], default=0)
        wide = replace(wide, op=wide.op + max(0, said - (wide.total - wide.margin - wide.lanes - 2)))
        remarked = any(rows.called) or any(rows.chips) or any(rows.roots.values())
        return _narrowed(wide, self.width - (24 if remarked else 0))

    def _column(self, text: str, room: int, *, right: bool = False) -> str:
        return "  " + padded(text, room, right=right) if room else ""

    def heads(self) -> str:
        """Return the heads of the columns."""
        c = self.columns
        text = " " * (c.margin + c.lanes) + "#".rjust(c.index) + self._column("op", c.op)
        text += self._column("shape", c.shape, right=True) + self._column("saved", c.saved, right=True)
        text += "  module, leaves" if any(self.rows.called) else "  leaves" if any(self.rows.chips) else ""
        text = cut(text.rstrip(), self.width)
        return paint(text, "dim") if self.color else text

    def lines(self) -> Iterator[str]:
        """Yield the rows, and below each repeated group the line that says so."""
        rows, kept, c = self.rows, self.kept, self.columns
        room = self.width - c.total
        above = ""
        kinds = [MARKS[t.kind] for t in self.graph.types]
        for k, row in enumerate(kept.rows):
            module, mark = rows.called[row], ROOT if row in rows.roots else kinds[rows.type[row]]
            line = self._margin(k) + self._lanes(self.drawn[k], mark) + self._index(rows.node[row])
            written = self.written.get(row)
            line += self._column(written, c.op) if written else self._op_cells[rows.type[row]]
            line += self._shape_cells[rows.shape[row]]
            line += self._saved(rows.saved[row], rows.state[row])
            if module or above or rows.chips[row] or rows.state[row] or mark != MARKS["op"]:
                pieces = remarks.module_pieces(module, above)
                tail = remarks.joined(pieces, remarks.of_row(self.graph, rows, row), room, color=self.color)
                line = f"{line}  {tail}"
            yield line.rstrip()
            above = module
            if k in kept.closing:
                yield from self._closings(k)
                above = ""

    def _margin(self, k: int) -> str:
        width, depth = self.columns.margin, self.kept.depth[k]
        if not width:
            return ""
        opening = len(self.kept.opening.get(k, ()))
        return self._dyed(("╎" * (depth - opening) + "╭" * opening).ljust(width), "cyan")

    def _closings(self, k: int) -> Iterator[str]:
        depth = self.kept.depth[k]
        for inner, fold in enumerate(self.kept.closing[k], 1):
            margin = self._dyed(("╎" * (depth - inner) + "╰").ljust(self.columns.margin), "cyan")
            yield (margin + self._open_lanes(self.drawn[k]) + self._repeated(fold)).rstrip()

    def _repetition(self, fold: Fold) -> tuple[str, str]:
        """Return `⟳ ×12 these 25 operations` and `Σ 61.9 MB`."""
        these = f" these {fold.period:,} operations" if fold.period > 1 else ""
        total = fold.count * sum(self.rows.saved[fold.body.start : fold.body.stop])
        return f"  ⟳ ×{fold.count:,}{these}", f"Σ {size(total)}" if total else ""

    def _repeated(self, fold: Fold) -> str:
        """Return the line below a fold without its lanes: how often, how much in all, and what counts up."""
        c = self.columns
        left, amount = self._repetition(fold)
        room = c.total - c.margin - c.lanes - 2
        text = padded(left, room - cells(amount)) + amount if c.saved else padded(left, room)
        span = cut(harmless(remarks.span(self.rows, fold)), self.width - c.total)
        return self._dyed(f"{text}  {span}", "cyan")

    def _lanes(self, lane: Lane, mark: str) -> str:
        text = self._lane_cells.get((lane, mark))
        if text is None:
            text = self._lane_cells[lane, mark] = self._joined(lanes.draw(lane, mark, self.most_lanes))
        return text

    def _open_lanes(self, lane: Lane) -> str:
        return self._joined(lanes.through(lane, self.most_lanes))

    def _joined(self, drawn: Sequence[str]) -> str:
        fill = " " * (self.columns.lanes - 2 * len(drawn))
        if not self.color:
            return "".join(drawn) + fill
        return "".join(paint(cell, LANE_COLORS[k % len(LANE_COLORS)]) for k, cell in enumerate(drawn)) + fill

    def _index(self, node: int) -> str:
        return self._dyed(str(node).rjust(self.columns.index), "dim")

    def _saved(self, count: int, state: str) -> str:
        text = self._saved_cells.get((count, state))
        if text is None:
            text = self._saved_cells[count, state] = self._saved_cell(count, state)
        return text

    def _saved_cell(self, count: int, state: str) -> str:
        """The more of the memory, the bolder."""
        modified = "modified" in state
        text = size(count) if count else "" if modified else state
        share = count / self.most_saved if self.most_saved else 0
        heat: Style = "bold" if share >= 0.5 else "plain" if share >= 0.05 else "dim"
        style: Style = "red" if modified else heat if count else "yellow"
        return self._dyed(self._column(text, self.columns.saved, right=True), style)

    def _dyed(self, text: str, style: Style) -> str:
        return paint(text, style) if self.color else text


def _narrowed(columns: _Columns, room: int) -> _Columns:
    """Give up width until the columns fit into `room`: of the operation first, then shapes, then bytes, then lanes."""
    least = {"op": 12, "shape": 0, "saved": 0, "lanes": 8, "margin": 2}
    for name, floor in least.items():
        excess, now = columns.total - room, getattr(columns, name)
        if excess > 0 and now > floor:
            columns = replace(columns, **{name: max(floor, now - excess) if floor else 0})
    return columns
