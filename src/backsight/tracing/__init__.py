"""What happens while a program runs."""

from backsight.tracing.steps import StepLog
from backsight.tracing.watch import Watch, current, watch

__all__ = ["StepLog", "Watch", "current", "watch"]
