"""`audit`: look at a loss before backward, by rules."""

from __future__ import annotations

import sys
from typing import Any

import torch

from backsight.diagnosis.evidence.severed import Severance, severance
from backsight.diagnosis.evidence.values import is_finite
from backsight.diagnosis.finding import SEVERITIES, Report
from backsight.diagnosis.program import named
from backsight.diagnosis.rules import RULES
from backsight.diagnosis.scene import Moment, Scene, Site, recall, remember
from backsight.diagnosis.wording import counted
from backsight.naming import standstill
from backsight.snapshot import Optimizers, optimizers_by_name, owned, survey
from backsight.tape import Models, NothingToCapture, no_jit_trace, no_torch_dispatch, no_torch_function, tensors_in
from backsight.tracing import current
from backsight.tracing.steps import parameters

_UNSEEN = (
    "This is what the graph shows. What was cut off from it (a sample, detach(), NumPy) also shows with "
    '`backsight run`, or within `backsight.watch(level="exact")`.'
)


def audit(*roots: Any, model: Models = None, optimizer: Optimizers = None) -> Report:
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
        model: the model, or models by name, if only these are to be looked at.
        optimizer: the optimizer, or optimizers by name, if only these are to be looked at.

    Returns:
        A `Report`: its `findings`, the gravest first. `report.raise_if("error")` turns them into an exception.

    Raises:
        NothingToCapture: if the roots have no graph.
        TypeError: if `model` or `optimizer` is something else.
    """
    caller = sys._getframe(1)
    try:
        return audit_at((caller.f_code.co_filename, caller.f_lineno), roots, model, optimizer)
    except NothingToCapture as error:
        raise NothingToCapture(str(error).replace("graph(", "audit(")) from None


def audit_at(
    site: Site,
    roots: tuple[Any, ...],
    model: Models = None,
    optimizer: Optimizers = None,
    moment: Moment = "before backward",
) -> Report:
    """Audit on behalf of the caller at `site`, whose earlier audits are compared with this one."""
    # Who counts, changes or traces operations is to see the program's alone.
    with no_torch_function(), no_torch_dispatch(), no_jit_trace(), standstill():
        return _audited(site, roots, model, optimizer, moment)


def severed_at(site: Site, loss: Any, optimizer: torch.optim.Optimizer) -> Severance | None:
    """Return what cuts all that an optimizer holds off from a loss, from within its backward at `site`."""
    with no_torch_function(), no_torch_dispatch(), no_jit_trace(), standstill():
        name, trained = named(optimizer, "optimizer"), [p for p in parameters(optimizer) if p.requires_grad]
        scene = _scene(site, (loss,), None, {name: optimizer}, "during backward")
        return severance(scene, name, trained, len(trained)) if trained and not scene.is_checkpointed else None


def _scene(
    site: Site,
    roots: tuple[Any, ...],
    model: Models,
    optimizer: Optimizers,
    moment: Moment,
) -> Scene:
    given = optimizers_by_name(optimizer)
    surveyed = survey(roots, model=model, finite=True)
    # Given ones are all that is judged, but a leaf of another optimizer is not without one.
    owners = owned(surveyed.graph.leaves, given)
    leaves = [leaf if leaf.owner else own for leaf, own in zip(surveyed.graph.leaves, owners, strict=True)]
    watch = current()
    return Scene(
        surveyed.graph.renamed(leaves, surveyed.graph.root_names),
        surveyed.models,
        given or surveyed.optimizers,
        steps=watch.steps if watch else None,
        past=recall(site),
        moment=moment,
        saved_names=surveyed.saved_names,
        site=site,
        loss_is_finite=_are_finite(roots),
        chosen=bool(given),
    )


def _audited(
    site: Site,
    roots: tuple[Any, ...],
    model: Models,
    optimizer: Optimizers,
    moment: Moment,
) -> Report:
    scene = _scene(site, roots, model, optimizer, moment)
    findings = [finding for rule in RULES.values() for finding in rule(scene)]
    remember(site, scene.graph, scene.involved().values())
    findings.sort(key=lambda f: (SEVERITIES.index(f.severity), f.code))
    ends = len(scene.graph.leaves)
    of_leaves = "1 leaf" if ends == 1 else f"{ends} leaves"
    looked_at = f"{counted(len(scene.graph) - ends, 'operation')} and {of_leaves}"
    watch = current()
    unseen = "" if watch is not None and watch.level == "exact" else _UNSEEN
    return Report(tuple(findings), looked_at, scene.graph, unseen)


def _are_finite(roots: tuple[Any, ...]) -> bool | None:
    """Whether all values of the roots are finite; None where they cannot be looked at."""
    known = [is_finite(root) for root in tensors_in(roots) if isinstance(root, torch.Tensor)]
    return None if None in known or not known else all(known)
