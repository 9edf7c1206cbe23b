"""Rules and explanations: from a graph, an error or a recording, to findings.

Offered to other rooms: `aliased`, `births`, `crossed`, `data_changed`, `drifting`, `dropped`, `evidence.singular`,
`evidence.values`, `explained`, `growing`, `heeding`, `live`, `live.deaf`, `lost_writes`, `members`, `misplaced`,
`piled`, `reordered`, `rules.parameter_twice`, `rules.unmoved`, `same_batch`, `state_shared`, `stopped`, `taken_once`,
`thawed`, `twins`, `used_up`, `vital`, `wiped`, `wording`, `zeroed`.
"""

from backsight.diagnosis.audit import audit, audit_at
from backsight.diagnosis.explain import explain, explaining
from backsight.diagnosis.finding import UNKNOWN, AuditFailed, Finding, Report
from backsight.diagnosis.history import Site
from backsight.diagnosis.live import LiveGraphs, graphs
from backsight.diagnosis.recordings import audit_run

__all__ = [
    "UNKNOWN",
    "AuditFailed",
    "Finding",
    "LiveGraphs",
    "Report",
    "Site",
    "audit",
    "audit_at",
    "audit_run",
    "explain",
    "explaining",
    "graphs",
]
