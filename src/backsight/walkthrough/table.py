"""What `print(walk)` shows: a row a step with its numbers, or, of a real model, a row a module with its norms."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from backsight.tape.cells import harmless
from backsight.tape.rows import dimensions
from backsight.text import PIPED, for_stdout
from backsight.text.console import printed as rendered
from backsight.text.rich import Table, Text
from backsight.walkthrough.gradient import Gradient, number, numbers
from backsight.walkthrough.step import Step

if TYPE_CHECKING:
    from backsight.tape import Graph
    from backsight.text.rich import RenderableType
    from backsight.walkthrough.modules import Row
    from backsight.walkthrough.walk import Walk

FORMULA = 40
"""A walk of at most so many steps is told step by step."""

NARROW = 100
"""Columns from which on there is room for a scale; formulas need more than where no terminal is."""
NARROWEST = 40
_WIDEST_BAR = 12


def table(walk: Walk, *, width: int | None = None, color: bool = False) -> str:
    """Return the walk as a table of at most `width` columns (the terminal's)."""
    width = max(width or shutil.get_terminal_size((PIPED, 24)).columns, NARROWEST)
    return rendered(*_parts(walk, width), width=width, color=color)


def _parts(walk: Walk, width: int) -> Iterator[RenderableType]:
    yield _heading(walk)
    by_step = len(walk) <= FORMULA or not any(row.module for row in walk.summary())
    if walk.steps:
        yield _by_step(walk, width) if by_step else _by_module(walk, width)
    if walk.steps and by_step:
        yield Text("# is the index in walk.graph.nodes", "dim")
    if walk.steps and by_step and len(walk.steps) > FORMULA:
        yield Text(f"the last {FORMULA} steps are shown; walk.steps has all of them", "dim")
    yield from _below(walk)


def printed(walk: Walk) -> str:
    """Return the table as suits where `print` goes: colour in a terminal, plain text elsewhere."""
    return for_stdout(lambda terminal, color: table(walk, width=None if terminal else PIPED, color=color))


def _heading(walk: Walk) -> Text:
    names = ", ".join(dict.fromkeys(harmless(name) for name in walk.graph.root_names if name)) or "graph"
    leaves = sum(gradient is not None for gradient in walk.gradients)
    return Text.assemble(
        (f"backward of {names}", "bold"),
        f"  {len(walk.steps):,} of {len(walk):,} steps, {leaves:,} of {len(walk.graph.leaves):,} leaves reached",
    )


def _below(walk: Walk) -> Iterator[Text]:
    if walk.stopped:
        yield Text.assemble(("stopped: ", "bold red"), harmless(walk.stopped))
    if walk.next is not None:
        module = f" in {walk.graph.called(walk.next.module)}" if walk.next.module else ""
        yield Text.assemble(("next: ", "bold green"), harmless(f"{walk.next}{module}"))
    for note in walk.notes:
        yield Text(harmless(note), "dim")


def _grid() -> Table:
    return Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))


def _by_step(walk: Walk, width: int) -> Table:
    """A row a step, numbered as its node in the graph; with a formula, or what the engine did, where there is room."""
    grid = _grid()
    grid.add_column("#", justify="right", style="dim")
    grid.add_column("node", no_wrap=True, overflow="ellipsis", min_width=14)
    grid.add_column("g arriving", no_wrap=True, overflow="ellipsis", ratio=3)
    grid.add_column("g leaving", no_wrap=True, overflow="ellipsis", ratio=4)
    grid.add_column("norm", justify="right")
    if width > PIPED:
        grid.add_column("formula", no_wrap=True, overflow="ellipsis", ratio=6)
    grid.expand = True
    shown = walk.steps if len(walk.steps) <= FORMULA else walk.steps[-FORMULA:]
    for step in shown:
        cells = [Text(str(step.node.index)), _node(step), _all(step.grad_in), _leaving(step), _norm(step)]
        grid.add_row(*cells, *([_formula(step)] if width > PIPED else []))
    return grid


def _node(step: Step) -> Text:
    if step.node.leaf is not None:
        return Text(f"→ {harmless(step.node.leaf.label)}", "green")
    return Text(harmless(step.op), "bold" if step.node.kind == "custom" else "")


def _all(gradients: tuple[Gradient | None, ...]) -> Text:
    return Text(
        " ; ".join(_brief(g) + (f" (Σ of {g.parts})" if g.parts > 1 else "") for g in gradients if g is not None)
    )


def _leaving(step: Step) -> Text:
    if step.node.leaf is not None:
        return Text("")
    named = zip(step.arguments, step.grad_out, strict=True)
    parts = [(name, g) for name, g in named if g is not None]
    shown = [f"{name}: {_brief(g)}" if len(step.grad_out) > 1 else _brief(g) for name, g in parts]
    return Text(" ; ".join(shown))


def _brief(gradient: Gradient) -> str:
    shape = dimensions(gradient.shape) + " " if gradient.shape else ""
    return f"{shape}{numbers(gradient.value, 3)}" if gradient.value is not None else f"{shape}…"


def _norm(step: Step) -> Text:
    norm = step.norm_out
    return Text(number(norm), "" if math.isfinite(norm) else "bold red")


def _formula(step: Step) -> Text:
    if step.node.leaf is not None:
        return Text("accumulates", "dim")
    needed = {name for name, g in zip(step.arguments, step.grad_out, strict=True) if g is not None}
    notes = "; ".join(step.notes)
    if step.formula is None:
        said = Path(step.node.definition).name if step.node.definition else step.words
    else:
        of = step.formula.of.items()
        said = "; ".join(f"{k}: {text}" for k, text in of if len(of) == 1 or needed & {n.strip() for n in k.split(",")})
    return Text(harmless(f"{notes}; {said}" if notes else said))


def _by_module(walk: Walk, width: int) -> Table:
    rows = walk.summary()
    grid = _grid()
    grid.add_column("module", no_wrap=True, overflow="ellipsis", min_width=12)
    for head in ("steps", "norm in", "norm out", "out/in", "leaves"):
        grid.add_column(head, justify="right")
    grid.add_column("norm in, log scale" if width >= NARROW else "", no_wrap=True)
    norms = [math.log10(row.norm_in) for row in rows if row.norm_in > 0 and math.isfinite(row.norm_in)]
    lowest, highest = (min(norms), max(norms)) if norms else (0.0, 0.0)
    for row in rows:
        grid.add_row(*_cells(row, walk.graph), _bar(row.norm_in, lowest, highest))
    return grid


def _cells(row: Row, graph: Graph) -> Iterator[Text]:
    style = "" if row.finite else "bold red"
    yield Text(harmless(graph.called(row.module)) if row.module else "(outside)", style)
    yield Text(f"{row.steps:,}", "dim")
    for value in (row.norm_in, row.norm_out, row.ratio, row.norm_leaves):
        yield Text("" if (math.isnan(value) and row.finite) or value == 0 else number(value), style)


def _bar(norm: float, lowest: float, highest: float) -> Text:
    if norm <= 0 or not math.isfinite(norm):
        return Text("")
    share = 1.0 if highest == lowest else (math.log10(norm) - lowest) / (highest - lowest)
    return Text("█" * (1 + round(share * (_WIDEST_BAR - 1))), "cyan")
