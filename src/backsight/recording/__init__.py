"""Recording: statistics of every tensor of a training run, taken while it runs.

Offered to other rooms: `arguments`, `called`, `cost`, `environment`, `hook`, `nested`, `observed`, `optimizer_steps`,
`program`, `schedule`, `statistics`, `steps`, `tables`, `voice`.
"""

from backsight.recording._torch import (
    CALL,
    in_transform,
    is_uninitialized,
    keywords,
    note_trace,
    registered,
    traced,
)
from backsight.recording.record import record
from backsight.recording.recorder import Recorder
from backsight.recording.taps import MORE_TAPS, TAPS
from backsight.recording.voice import RecordingWarning

__all__ = [
    "CALL",
    "MORE_TAPS",
    "TAPS",
    "Recorder",
    "RecordingWarning",
    "in_transform",
    "is_uninitialized",
    "keywords",
    "note_trace",
    "record",
    "registered",
    "traced",
]
