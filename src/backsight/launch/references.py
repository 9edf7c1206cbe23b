"""A loss that is the same in each step that is audited, because a model is compared with itself."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from backsight.diagnosis import Finding, Site
from backsight.diagnosis.rules.constant_ratio import Compared, compared, own_reference
from backsight.launch.modes import Modes
from backsight.launch.passes import PASSES
from backsight.launch.sign import Audit, Sign
from backsight.tape import tensors_in
from backsight.tape.saved import is_readable
from backsight.tracing import Watch


@dataclass(slots=True)
class _Backward:
    """What the losses of one backward compare, and what they were, by the step."""

    seen: Compared
    losses: dict[int, float] = field(default_factory=dict)
    finding: Finding | None = None


class References(Sign):
    """Reads the loss where an audit looks anyway, if what it compares is the same by then: no other loss is read.

    In a first step, a model and its frozen copy are the same; then the loss moves. A loss of 0 is none: a surrogate of
    normalized advantages is that, and its gradient is right.
    """

    def __init__(self, watch: Watch, modes: Modes) -> None:
        self._watch, self._modes = watch, modes
        self._at: dict[Site, _Backward] = {}

    def audited(self, audit: Audit) -> None:
        graph = audit.report.graph
        seen = compared(graph, self._watch) if graph is not None else None
        known = self._at.get(audit.site)
        if known is None and seen is not None:
            known = self._at[audit.site] = _Backward(seen)
        loss = loss_of(audit.roots) if known is not None else None
        if known is None or loss is None:
            return
        known.finding = None
        known.losses[audit.steps] = loss
        if seen is None or abs(loss) < 1e-6 or len(set(known.losses.values())) > 1:
            return
        if len(known.losses) >= PASSES:
            models = [model for each in self._modes.models if (model := each.model()) is not None]
            known.finding = own_reference(seen, loss, len(known.losses), models)

    @property
    def findings(self) -> list[Finding]:
        """What holds as of the last audit."""
        return [each.finding for each in self._at.values() if each.finding is not None]


def loss_of(roots: object) -> float | None:
    """Return the value of the only loss, if it can be read."""
    found = [each for each in tensors_in(roots) if isinstance(each, torch.Tensor)]
    if len(found) != 1 or found[0].numel() != 1 or not is_readable(found[0]):
        return None
    return float(found[0].detach())
