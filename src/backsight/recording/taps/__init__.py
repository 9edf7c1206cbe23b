"""Taps: where a recording takes its tensors from. Each attaches PyTorch's own hooks, and removes them."""

from backsight.recording.taps.choice import METRIC_KINDS, MORE_TAPS, TAPS, make_taps
from backsight.recording.taps.tap import Tap

__all__ = ["METRIC_KINDS", "MORE_TAPS", "TAPS", "Tap", "make_taps"]
