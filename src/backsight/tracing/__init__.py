"""What happens while a program runs.

Offered to other rooms: `around`, `births`, `callers`, `changes`, `moves`, `steps`, `watch`.
"""

from backsight.tracing._torch import has_compiled
from backsight.tracing.facts import (
    Backward,
    Change,
    End,
    Line,
    Met,
    NonFinite,
    Operand,
    Operation,
    Reach,
    Severed,
    Values,
)
from backsight.tracing.spots import Sighting, Spot
from backsight.tracing.steps import StepLog
from backsight.tracing.traces import cleaned
from backsight.tracing.watch import (
    Level,
    Watch,
    current,
    ended,
    finest,
    inferred,
    met,
    report_errors,
    severed,
    sightings,
    watch,
)

__all__ = [
    "Backward",
    "Change",
    "End",
    "Level",
    "Line",
    "Met",
    "NonFinite",
    "Operand",
    "Operation",
    "Reach",
    "Severed",
    "Sighting",
    "Spot",
    "StepLog",
    "Values",
    "Watch",
    "cleaned",
    "current",
    "ended",
    "finest",
    "has_compiled",
    "inferred",
    "met",
    "report_errors",
    "severed",
    "sightings",
    "watch",
]
