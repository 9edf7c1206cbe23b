"""Where a training step ends if no optimizer ends it: between a backward pass and the next call of a model."""

from __future__ import annotations

from backsight.recording.steps import StepEnds

PATIENCE = 16
"""Backward passes after which an optimizer that the program has is not waited for any longer."""


class Backwards:
    """Counts steps by backward passes, once it is clear that the program has no optimizer that steps.

    An optimizer that is there but has not stepped yet is waited for: it may accumulate gradients first.
    """

    def __init__(self, ends: StepEnds):
        self._ends = ends
        self._passed = 0
        self.counting = False
        """Whether steps are counted so."""

    def end_steps(self) -> bool:
        """Whether a step ends here, between a backward pass and a call."""
        self._passed += 1
        if not self.counting:
            waits = self._ends.count or (self._passed < PATIENCE and self._ends.expected())
            self.counting = not waits
        return self.counting
