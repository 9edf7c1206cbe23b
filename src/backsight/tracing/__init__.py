"""What happens while a program runs."""

from backsight.tracing.facts import Backward, Change, Line, NonFinite, Operand, Operation, Severed, Values
from backsight.tracing.steps import StepLog
from backsight.tracing.traces import cleaned
from backsight.tracing.watch import Level, Watch, current, finest, report_errors, watch

__all__ = [
    "Backward",
    "Change",
    "Level",
    "Line",
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
    "report_errors",
    "watch",
]
