"""Recorders where their process ends, or forks."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from typing import Protocol

from backsight.recording.voice import told
from backsight.text import inert


class Recording(Protocol):
    """What has to be closed before the process ends, and left alone in one that is forked off."""

    def close(self) -> None: ...

    def abandon(self) -> None: ...


_recordings: weakref.WeakSet[Recording] = weakref.WeakSet()


def add(recording: Recording) -> None:
    """Close it when the process ends, and abandon it in forks; it is not kept alive for that."""
    _recordings.add(recording)


@atexit.register
def _close_all() -> None:
    for recording in list(_recordings):
        try:
            recording.close()
        except Exception as failure:  # the others are still to be closed, and there is nobody to raise to
            if sys.stderr is not None:
                text = f"backsight: a recording was not closed; what was flushed is safe: {told(failure)}"
                print(inert(text), file=sys.stderr)


def _abandon_all() -> None:
    for recording in list(_recordings):
        recording.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
