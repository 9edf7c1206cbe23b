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
    Part,
    Reach,
    Severed,
    Stop,
    Values,
)
from backsight.tracing.spots import Sighting, Spot, Write
from backsight.tracing.steps import StepLog
from backsight.tracing.traces import cleaned
from backsight.tracing.watch import (
    Level,
    Watch,
    aligned,
    along,
    current,
    ended,
    find_stops,
    finest,
    inferred,
    met,
    repeated,
    repeated_writes,
    report_errors,
    sightings,
    stops,
    watch,
    whence,
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
    "Part",
    "Reach",
    "Severed",
    "Sighting",
    "Spot",
    "StepLog",
    "Stop",
    "Values",
    "Watch",
    "Write",
    "aligned",
    "along",
    "cleaned",
    "current",
    "ended",
    "find_stops",
    "finest",
    "has_compiled",
    "inferred",
    "met",
    "repeated",
    "repeated_writes",
    "report_errors",
    "sightings",
    "stops",
    "watch",
    "whence",
]
