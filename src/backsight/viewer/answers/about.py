"""What a run is: its tensors in the order of its modules, its steps, ranks, settings and surroundings."""

from __future__ import annotations

from typing import Any

from backsight.runs import DERIVED, FOUND, Run
from backsight.tables.listing import listed
from backsight.tables.settings import settings_of
from backsight.tables.tree import Module
from backsight.viewer.order import modules_of
from backsight.viewer.packing import plain
from backsight.viewer.question import Answer, Asked, question

KINDS = (
    *("averaged_grad", "grad", "weight", "output", "input", "state"),
    *("update", "output_grad", "buffer", "variable"),
)
"""The order in which kinds are offered: what tells most comes first."""


GRADIENTS = ("averaged_grad", "grad")


@question("about")
def about(run: Run, asked: Asked) -> Answer:
    """Everything that a page needs before it draws."""
    overview = run.overview
    steps = overview.steps
    seen = listed(run)
    kinds = {tensor.kind for tensor in run.tensors}
    return {
        "name": run.name,
        "created": run.created,
        "state": seen.state,
        "bytes": seen.bytes,
        "damage": seen.damage,
        "steps": {
            "count": len(overview.training_steps),
            "made": (_at(overview.training_steps, -1) or 0) + 1,  # an evaluation after them is none
            "first": _at(steps, 0),
            "last": _at(steps, -1),
        },
        "ranks": list(run.ranks),
        "rank": None if overview is run else overview.ranks[0],
        "replicated": any(tensor.replicated for tensor in run.tensors) and run.world > 1,
        "world": run.world,
        "kinds": [*(kind for kind in KINDS if kind in kinds), *sorted(kinds.difference(KINDS))],
        "ungraded": _ungraded(run),
        "stats": list(DERIVED),
        "metrics": list(run.metrics),
        "modules": [_module(module) for module in modules_of(run)],
        "config": plain(run.config),
        "environment": plain(run.environment),
        "events": [plain(vars_) for vars_ in _events(overview)],
    }


def _module(module: Module) -> Answer:
    return {
        "name": module.name,
        "label": module.label,
        "type": module.type,
        "depth": module.depth,
        "tensors": [[row.tensor, row.kind, None if row.shape is None else list(row.shape)] for row in module.rows],
    }


def _ungraded(run: Run) -> dict[str, list[str]]:
    """Return by the kind of gradients, where some were recorded, the weights that are to be trained and have none."""
    names = {kind: {each.name for each in run.tensors if each.kind == kind} for kind in ("weight", *GRADIENTS)}
    trained = _trained(run)
    weights = [each.name for each in run.tensors if each.kind == "weight" and each.name in trained]
    return {
        kind: missing
        for kind in GRADIENTS
        if names[kind] and (missing := [name for name in weights if name not in names[kind]])
    }


def _trained(run: Run) -> set[str]:
    """Return the parameters that require a gradient, as the run's tree has them."""
    found, stack = set[str](), list(run.tree or [])
    while stack:
        node = stack.pop()
        prefix = f"{node['name']}." if node["name"] else ""
        found |= {prefix + each["name"] for each in node.get("parameters", ()) if each["requires_grad"]}
        stack += node.get("children", ())
    return found


def _events(run: Run) -> list[dict[str, Any]]:
    """Return what else happened; the order of modules is no news, and what was found has a page of its own."""
    return [
        {"event": event.event, "step": event.step, "rank": event.rank, "time": event.time, "details": event.details}
        for event in run.events
        if event.event not in ("order", FOUND)
    ]


def _at(steps: Any, index: int) -> int | None:
    return int(steps[index]) if len(steps) else None


MOST_PARAMETERS = 500
"""So many tell whether two runs are of one model."""


@question("settings")
def settings(run: Run, asked: Asked) -> Answer:
    """Script, arguments, what optimizers are set to, commit, seed, versions; and by what name parameters are known."""
    parameters = {each.name for each in run.tensors if each.kind in ("weight", "grad", "averaged_grad")}
    return {
        "settings": [[group, name, plain(value)] for group, name, value in settings_of(run)],
        "parameters": sorted(parameters)[:MOST_PARAMETERS],
    }
