"""The notebook that all taps write into: the page of the step under way, if that step is recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from backsight.recording._torch import transform
from backsight.recording.metrics import Metrics
from backsight.recording.page import Page
from backsight.recording.voice import Voice


@dataclass(eq=False)
class Notebook:
    """Where taps write. `page` is None between recorded steps, and in a process that was forked off."""

    voice: Voice
    metrics: Metrics
    failed: Callable[[str, Exception], None]
    """Called with the name of a tap and what it raised."""
    calls: int
    """Calls of one module, or arrivals of one gradient, that are recorded in a step."""
    page: Page | None = None

    def open_page(self) -> Page | None:
        """Return the page to write on, or None where nothing is to be recorded."""
        return None if self.page is None or self.metrics.running or transform() is not None else self.page

    def full(self, call: int, name: str) -> bool:
        """Whether this call is one too many; says so once."""
        if call < self.calls:
            return False
        self.voice.say(
            "calls",
            f"{name} is called more than {self.calls} times in a step, and further calls are not recorded. "
            "If no optimizer ends the steps, call rec.step(); to record more calls, pass calls=... to record().",
        )
        return True
