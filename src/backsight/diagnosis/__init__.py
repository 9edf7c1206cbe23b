"""Rules and explanations: from a graph, an error or a recording, to findings.

Offered to other rooms: `aliased`, `births`, `causes`, `data_changed`, `drawn`, `dropped`, `evidence.singular`,
`evidence.turns`, `evidence.values`, `explained`, `heeding`, `hooked`, `idle_backward`, `live`, `live.deaf`,
`misplaced`, `modes`, `nothing_arrives`, `pasted`, `peculiar`, `program`, `reordered`, `rewritten`,
`rules.accumulated`, `rules.constant_ratio`, `rules.held`, `rules.left_gradient`, `rules.unmoved`, `schedules`,
`stale_copies`, `still_moving`, `stopped`, `twins`, `unloaded`, `untied`, `views`, `wording`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from backsight.diagnosis.audit import audit, audit_at, severed_at
from backsight.diagnosis.evidence.severed import Severance
from backsight.diagnosis.finding import UNKNOWN, AuditFailed, Finding, Report
from backsight.diagnosis.live import LiveGraphs, graphs
from backsight.diagnosis.recordings import audit_run
from backsight.diagnosis.scene import Site

if TYPE_CHECKING:
    from backsight.diagnosis.explanations import explain, explaining

__all__ = [
    "UNKNOWN",
    "AuditFailed",
    "Finding",
    "LiveGraphs",
    "Report",
    "Severance",
    "Site",
    "audit",
    "audit_at",
    "audit_run",
    "explain",
    "explaining",
    "graphs",
    "severed_at",
]


def __getattr__(name: str) -> Any:
    if name not in ("explain", "explaining"):  # all explanations come with them: a training that goes well needs none
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("backsight.diagnosis.explanations"), name)
