"""A loss that is the logarithm of a probability, and falls."""

from __future__ import annotations

from backsight.diagnosis import Finding, Site
from backsight.diagnosis.peculiar import less_probable, minimized
from backsight.launch.passes import PASSES
from backsight.launch.references import loss_of
from backsight.launch.sign import Audit, Sign


class Likelihoods(Sign):
    """Reads the loss where an audit looks anyway, if its graph says that it is a log-probability.

    It has to be below 0 in all of the audits, and to fall: then it is what is minimized, and not an objective that is
    maximized by another name.
    """

    def __init__(self) -> None:
        self._losses: dict[Site, list[float]] = {}
        self._found: dict[Site, Finding] = {}

    def audited(self, audit: Audit) -> None:
        graph = audit.report.graph
        node = minimized(graph) if graph is not None else None
        loss = loss_of(audit.roots) if node is not None else None
        if graph is None or node is None or loss is None or loss >= 0:
            self._losses.pop(audit.site, None)
            self._found.pop(audit.site, None)
            return
        losses = self._losses.setdefault(audit.site, [])
        losses.append(loss)
        if len(losses) >= PASSES and loss < losses[0]:
            self._found[audit.site] = less_probable(graph, node, losses[0], loss, 1)
        else:
            self._found.pop(audit.site, None)
