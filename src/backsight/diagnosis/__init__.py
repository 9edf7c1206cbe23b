"""Rules and explanations: from a graph, an error or a recording, to findings.

Offered to other rooms: `aliased`, `backup`, `births`, `captures`, `causes`, `collapsed`, `compressed`,
`data_changed`, `drifting`, `dropped`, `evaluated`, `evidence.singular`, `evidence.turns`, `evidence.values`,
`explained`, `freezing`, `functional`, `heeding`, `led_through`, `likelihood`, `live`, `live.deaf`, `loss_targets`,
`members`, `misplaced`, `modes`, `nothing_arrives`, `optimizers`, `overwritten`, `own_anchor`, `own_average`,
`pasted`, `peculiar`, `piled`, `program`, `pruned`, `reordered`, `rewritten`, `rules.constant_ratio`,
`rules.parameter_twice`, `rules.thrown_away`, `rules.unmoved`, `same_batch`, `schedules`, `seeded_again`, `stacked`,
`stale_copies`, `stopped`, `taken_once`, `twins`, `unloaded`, `unpaired`, `used_up`, `views`, `wording`, `zeroed`.
"""

from backsight.diagnosis.audit import audit, audit_at, severed_at
from backsight.diagnosis.evidence.severed import Severance
from backsight.diagnosis.explain import explain, explaining
from backsight.diagnosis.finding import UNKNOWN, AuditFailed, Finding, Report
from backsight.diagnosis.live import LiveGraphs, graphs
from backsight.diagnosis.recordings import audit_run
from backsight.diagnosis.scene import Site

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
