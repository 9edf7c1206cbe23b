"""What recording has to say: each cause once."""

from __future__ import annotations

import traceback
from pathlib import Path

from backsight.blame import warn_only


class RecordingWarning(UserWarning):
    """Something is not recorded; the training goes on."""


class Voice:
    """Says each thing once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, cause: str, text: str) -> bool:
        """Warn, unless this cause has been warned of; whether it was said now."""
        if cause in self._said:
            return False
        self._said.add(cause)
        warn_only(f"backsight: {text}", RecordingWarning)
        return True


def told(failure: BaseException) -> str:
    """Return an exception in a line: its type, its words, and the line of code that raised it."""
    *_, last = traceback.format_exception_only(type(failure), failure)
    frames = traceback.extract_tb(failure.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{last.strip()}{where}"
