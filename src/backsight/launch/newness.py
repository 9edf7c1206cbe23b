"""What is said of this PyTorch, once a day at most: that it is newer than any that was tested, or what it lacks."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from backsight._tested import NEWEST, newer_than_tested, spelt


def newness(version: str) -> str | None:
    """Return what to say of a version of PyTorch; None if it is not newer than tested, or that was said today.

    Where it cannot be remembered that it was said, it is not said: `backsight doctor` tells it at any time.
    """
    if not newer_than_tested(version) or not first_today("newer-than-tested"):
        return None
    return f"backsight: PyTorch {version} is newer than any version backsight was tested with ({spelt(NEWEST)})"


def first_today(what: str) -> bool:
    """Whether something has not been said today, and remember that it is now; False where it cannot be remembered."""
    try:
        stamp, today = cache() / what, time.strftime("%Y-%m-%d")
        if stamp.is_file() and stamp.read_text(encoding="utf-8").strip() == today:
            return False
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(f"{today}\n", encoding="utf-8")
    except (OSError, ValueError, RuntimeError):  # no home, no room, no right to write, or not a text
        return False
    return True


def cache() -> Path:
    """Return the folder for what may be deleted at any time, as the platform has it."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "backsight"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "backsight"
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if os.path.isabs(given) else Path.home() / ".cache") / "backsight"
