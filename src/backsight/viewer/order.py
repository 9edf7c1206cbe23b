"""The tensors of a run in the order of its modules."""

from __future__ import annotations

from backsight.runs import Run
from backsight.tables.step import Row
from backsight.tables.tree import Module, in_order, modules


def modules_of(run: Run) -> list[Module]:
    """Return the modules, each before those in it, with a row for each tensor, as the table in a terminal has them."""
    rows = [Row(each.name, each.kind, each.module, each.shape, 1, {}, ()) for each in run.tensors]
    return list(in_order(modules(run.tree, rows)))


def places(run: Run, kind: str) -> dict[str, int]:
    """Return the place of each tensor of a kind, by its name."""
    names = [row.tensor for module in modules_of(run) for row in module.rows if row.kind == kind]
    return {name: place for place, name in enumerate(names)}
