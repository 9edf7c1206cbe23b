"""The table of a step: modules as they are nested, their tensors, numbers, and lines of the last steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from backsight.tables.sparkline import sparkline
from backsight.tables.step import STATS, Row, Step
from backsight.tables.text import fraction, number
from backsight.tables.tree import Module, base, in_order, short
from backsight.text import printable

if TYPE_CHECKING:
    from backsight.text.rich import Table, Text

HEADINGS = {"l2": "norm", "zero_fraction": "zero", "absmax": "abs max", "nonfinite": "not finite"}

_GAP = 2
"""Spaces between columns."""

_SHORTEST, _LONGEST = 14, 26
"""Characters that a column of names has at least, and those beyond which it gives way to others."""

_TENSOR = 18
"""Characters of a tensor's name that stay where those of modules need room: enough for `weight.exp_avg_sq`."""

_NESTED = ("grad", "averaged_grad", "update", "state")
"""Kinds that stand below the parameter that they are about."""

STYLE = {"not finite": "bold red", "all zero": "yellow", "never moves": "yellow"}


@dataclass(frozen=True)
class Layout:
    """What fits into a width: how many of the statistics, how long a line, and whether there is room for shapes."""

    width: int
    stats: int
    line: int
    shape: bool


def layout(width: int, stats: int, usual: bool) -> Layout:
    """Return what fits: all statistics that were asked for; of the usual ones as many as there is room for."""
    if usual:
        stats = 3 if width < 116 else 5 if width < 132 else len(STATS)
    line = 12 if width < 96 else 20 if width < 116 else 24 if width < 160 else 48
    return Layout(width, stats, line, shape=width >= 88)


def table(step: Step, roots: Sequence[Module], fit: Layout) -> Table:
    """Return the rows of a step under their modules; where it is too wide, names are cut and numbers are not."""
    from backsight.text.rich import Table

    stats = step.stats[: fit.stats]
    lines = [cells for module in in_order(roots) for cells in _lines(module, stats, fit)]
    numbers = [printable(HEADINGS.get(stat, stat)) for stat in stats]
    headings = ["", "module", "tensor", *(["shape"] if fit.shape else []), *numbers, _over(step)]
    widths = [max([len(heading), *(len(cells[k]) for cells in lines)]) for k, heading in enumerate(headings)]
    widths[2] = min(widths[2], _LONGEST)
    room = fit.width - sum(widths[2:]) - widths[0] - _GAP * (len(widths) - 1)
    if fit.shape and room < min(widths[1], _LONGEST):
        return table(step, roots, replace(fit, shape=False))
    if (lacking := min(max(map(_label_width, in_order(roots)), default=0), widths[1]) - room) > 0:
        given = min(lacking, max(0, widths[2] - _TENSOR))
        widths[2], room = widths[2] - given, room + given
    widths[1] = max(_SHORTEST, min(widths[1], room))
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for k, (heading, width) in enumerate(zip(headings, widths, strict=True)):
        side: Literal["left", "right"] = "right" if len(numbers) > len(headings) - 2 - k >= 0 else "left"
        grid.add_column(heading, justify=side, no_wrap=True, overflow="ellipsis", min_width=width, max_width=width)
    for cells in lines:
        grid.add_row(*cells)
    return grid


def _label_width(module: Module) -> int:
    """Return how wide the name of a module is, without its type, which may be cut."""
    return 2 * module.depth + len(printable(module.label))


def _over(step: Step) -> str:
    what = HEADINGS.get(step.line, step.line)
    return f"{printable(what)}, {step.window[0]}–{step.number}" if len(step.window) > 1 else printable(what)


def _lines(module: Module, stats: Sequence[str], fit: Layout) -> list[list[Text]]:
    from backsight.text.rich import Text

    blank = [Text("")] * (1 + fit.shape + len(stats) + 1)
    indent = "  " * module.depth
    if module.alike > 1:
        text = f"{indent}{printable(module.label)} … {printable(module.last)}  {module.alike} alike"
        return [[_mark(module.rows[0]) if module.rows else Text(""), Text(text, "dim"), *blank]]
    name = Text.assemble(indent, (printable(module.label), "bold"), (f"  {printable(module.type)}", "dim"))
    lines: list[list[Text]] = []
    above = None
    for row in module.rows:
        lines.append([_mark(row), Text("") if lines else name, *_cells(row, above, stats, fit)])
        above = base(row) if row.kind not in _NESTED or above == base(row) else None
    return lines or [[Text(""), name, *blank]]


def _mark(row: Row) -> Text:
    from backsight.text.rich import Text

    if not row.problems:
        return Text("")
    worst = row.problems[0].kind
    return Text("✗" if worst == "not finite" else "!", STYLE[worst])


def _cells(row: Row, above: str | None, stats: Sequence[str], fit: Layout) -> list[Text]:
    from backsight.text.rich import Text

    style = STYLE[row.problems[0].kind] if row.problems else ""
    cells = [Text(_called(row, above), style)]
    if fit.shape:
        cells.append(Text("" if row.shape is None else "×".join(map(str, row.shape)) or "scalar", "dim"))
    for stat in stats:
        value = row.values[stat]
        text = fraction(value) if stat == "zero_fraction" else number(value)
        cells.append(Text(text, style))
    cells.append(Text(sparkline(row.history, fit.line), style or "cyan"))
    return cells


def _called(row: Row, above: str | None) -> str:
    """Return what a tensor is called below its module, and what is about a parameter below that."""
    name = short(row.tensor, row.module)
    if row.kind in _NESTED:
        inner = name.rpartition(".")[2] if row.kind == "state" else row.kind
        name = f"  {inner}" if above == base(row) else f"{base(row)}.{inner}"
    elif row.kind.startswith("eval_"):
        name += " (eval)"
    elif row.kind == "output_grad":
        name += ".grad"
    return printable(name if row.calls == 1 else f"{name} ×{row.calls}")
