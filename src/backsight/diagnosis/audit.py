"""`audit`: look at a loss before backward, by rules."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import torch

from backsight.diagnosis.finding import SEVERITIES, Report
from backsight.diagnosis.history import Site, recall, remember
from backsight.diagnosis.rules import RULES
from backsight.diagnosis.scene import Moment, Scene
from backsight.snapshot import survey
from backsight.tracing import current

Optimizers = torch.optim.Optimizer | Mapping[str, torch.optim.Optimizer] | None


def audit(*roots: Any, model: torch.nn.Module | None = None, optimizer: Optimizers = None) -> Report:
    """Look for what is wrong with a training step, just before its backward.

    ```python
    loss = criterion(model(x), y)
    print(backsight.audit(loss))
    loss.backward()
    ```

    Finds the models and optimizers around the caller by itself unless they are given. The rules and their codes are
    listed in `docs/codes/`. The graph is left as it was.

    Args:
        roots: the loss, or several; what `backsight.graph` takes.
        model: the model, if only this one is to be looked at.
        optimizer: the optimizer, or optimizers by name, if only these are to be looked at.

    Returns:
        A `Report`: its `findings`, the gravest first. `report.raise_if("error")` turns them into an exception.

    Raises:
        NothingToCapture: if the roots have no graph.
    """
    caller = sys._getframe(1)
    return audit_at((caller.f_code.co_filename, caller.f_lineno), roots, model, optimizer)


def audit_at(
    site: Site,
    roots: tuple[Any, ...],
    model: torch.nn.Module | None = None,
    optimizer: Optimizers = None,
    moment: Moment = "before backward",
) -> Report:
    """Audit on behalf of the caller at `site`, whose earlier audits are compared with this one."""
    surveyed = survey(roots, model=model, optimizer=optimizer, finite=True)
    watch = current()
    scene = Scene(
        surveyed.graph,
        surveyed.models,
        surveyed.optimizers,
        steps=watch.steps if watch else None,
        past=recall(site),
        moment=moment,
        saved_names=surveyed.saved_names,
    )
    findings = [finding for rule in RULES.values() for finding in rule(scene)]
    remember(site, scene.graph, list(scene.optimizers.values()))
    findings.sort(key=lambda f: (SEVERITIES.index(f.severity), f.code))
    nodes, leaves = len(scene.graph), len(scene.graph.leaves)
    return Report(tuple(findings), f"{nodes - leaves} operations and {leaves} leaves")
