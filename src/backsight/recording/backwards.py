"""Where a training step ends if no optimizer ends it: between a backward pass and the next call of a model."""

from __future__ import annotations

from collections.abc import Mapping

from backsight.recording.observed import Observed
from backsight.recording.steps import StepEnds

PATIENCE = 16
"""Backward passes after which an optimizer that the program has is not waited for any longer; twice as many as it took
before, if that is more."""


class Backwards:
    """Counts steps by backward passes, while it is clear that no optimizer of the program ends them.

    An optimizer that is there is waited for, as it may accumulate gradients first. But where a parameter is written to
    meanwhile, a step was taken by hand.
    """

    def __init__(self, observed: Observed, ends: StepEnds):
        self._observed, self._ends = observed, ends
        self._passed = 0
        """Backward passes since a parameter was written to, or an optimizer has stepped."""
        self._patience = PATIENCE
        self._without = False
        """Whether the program had no optimizer when it was asked."""
        self.counting = False
        """Whether steps are counted so."""

    def end_steps(self, arrived: Mapping[int, int | None]) -> bool:
        """Whether a step ends here, between a backward pass and a call.

        arrived: the parameters that the pass has given gradients, by id, each with its version then.
        """
        if self._ends.amid:  # the optimizer itself asks for this pass
            return False
        by_hand = self._observed.written(arrived)
        self._passed = 0 if by_hand else self._passed + 1
        self.counting = by_hand or self._passed >= self._patience or self._has_none()
        return self.counting

    def stepped(self) -> None:
        """Note that an optimizer has stepped: steps end there."""
        self._patience = max(self._patience, 2 * (self._passed + 1))
        self._passed, self._without, self.counting = 0, False, False

    def _has_none(self) -> bool:
        """Whether the program has no optimizer; a search is too dear for every pass."""
        self._without = self._without or not self._ends.expected()
        return self._without
