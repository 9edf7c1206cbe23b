"""Which backwards of a training are audited: the first passes of each, and some again at later looks."""

from __future__ import annotations

from backsight.diagnosis import Site
from backsight.launch.attention import LOOK

PASSES = 3
"""Passes that are audited of each backward in the program: what is left over from step to step shows by the third."""

_MOST_STEPS = 32
"""Optimizer steps after which no more is audited: a backward that comes later is not of the training's first steps."""

_MOST_LOOKS = 8
"""Optimizer steps at which a loss is looked for in vain: a look takes milliseconds, of every step."""


class Passes:
    """Counts the passes of each backward; `steps` are always the optimizer steps so far."""

    def __init__(self) -> None:
        self.looked = 0
        """The optimizer steps there were when it was begun to look more closely."""
        self._audited: dict[Site, list[int]] = {}
        self._most = PASSES
        self._in_vain = 0

    def again(self, steps: int, *, change: bool) -> None:
        """Begin anew: all passes after a change, and one where it is only time to look again."""
        self._audited.clear()
        self.looked, self._in_vain, self._most = steps, 0, PASSES if change else 1

    @property
    def changed(self) -> int:
        """The step after which it is looked again, if there was a change."""
        return self.looked if self._most == PASSES else 0

    @property
    def are_late(self) -> bool:
        """Whether those of the first steps are over, and it is looked again."""
        return self.looked > _MOST_STEPS

    def is_due(self, site: Site, steps: int) -> bool:
        """Whether the backward at this place is one of its first, and the first since the last optimizer step."""
        passes = self._audited.get(site, [])
        settled = self._most == PASSES or steps >= self.looked + LOOK - 1
        return settled and len(passes) < self._most and steps not in passes

    def audited(self, site: Site, steps: int) -> None:
        """Note that the backward at this place is audited."""
        self._audited.setdefault(site, []).append(steps)

    def looked_in_vain(self) -> None:
        """Note that no loss was found where one was looked for."""
        self._in_vain += 1

    def are_over(self, steps: int) -> bool:
        """Whether no more is to be audited."""
        most = LOOK if self._most < PASSES else _MOST_STEPS
        return steps - self.looked >= most or self._in_vain >= _MOST_LOOKS
