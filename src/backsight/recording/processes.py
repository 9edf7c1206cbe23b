"""Recorders where their process ends, or forks."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol


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
        recording.close()


def _abandon_all() -> None:
    for recording in list(_recordings):
        recording.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
