"""Recording: statistics of every tensor of a training run, taken while it runs."""

from backsight.recording.record import record
from backsight.recording.recorder import Recorder
from backsight.recording.taps import MORE_TAPS, TAPS
from backsight.recording.voice import RecordingWarning

__all__ = ["MORE_TAPS", "TAPS", "Recorder", "RecordingWarning", "record"]
