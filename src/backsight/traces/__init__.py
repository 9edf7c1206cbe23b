"""Traces: every operation of some steps of a training, forward and backward, and where two trainings diverge.

Offered to other rooms: `agreement`, `fingerprints`, `terminal`, `tracer`.
"""

from backsight.traces.diff import diff
from backsight.traces.difference import Difference
from backsight.traces.errors import TraceError, TraceWarning
from backsight.traces.judging import CODES
from backsight.traces.records import Trace
from backsight.traces.store import open_trace
from backsight.traces.trace import trace
from backsight.traces.tracer import Tracer

__all__ = ["CODES", "Difference", "Trace", "TraceError", "TraceWarning", "Tracer", "diff", "open_trace", "trace"]
