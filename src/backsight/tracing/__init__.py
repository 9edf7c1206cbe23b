"""What happens while a program runs.

Offered to other rooms: `around`, `births`, `callers`, `changes`, `moves`, `steps`, `watch`.
"""

from backsight.tracing._torch import has_compiled
from backsight.tracing.facts import Backward, Change, Line, Met, NonFinite, Operand, Operation, Severed, Values
from backsight.tracing.steps import StepLog
from backsight.tracing.traces import cleaned
from backsight.tracing.watch import Level, Watch, current, finest, met, report_errors, watch

__all__ = [
    "Backward",
    "Change",
    "Level",
    "Line",
    "Met",
    "NonFinite",
    "Operand",
    "Operation",
    "Severed",
    "StepLog",
    "Values",
    "Watch",
    "cleaned",
    "current",
    "finest",
    "has_compiled",
    "met",
    "report_errors",
    "watch",
]
