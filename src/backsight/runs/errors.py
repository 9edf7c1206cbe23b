"""What can be wrong with a run, each with what, where, and the fix."""

from __future__ import annotations

from backsight.text import inert


class RunError(Exception):
    """A run cannot be read or written. The message names what others have named, and is printed to terminals."""

    def __init__(self, message: str):
        super().__init__(inert(message))


class RunNotFound(RunError):
    """There is nothing at this path."""


class NotARun(RunError):
    """What is at this path was not written by a recording."""


class NewerRun(RunError):
    """The run was written by a later version of backsight, in a format that this one does not know."""


class DamagedRun(RunError):
    """Nothing of the run can be read; parts that are damaged are skipped and counted instead."""


class RunExists(RunError):
    """A run is to be written where one is already."""


class RunNotWritable(RunError):
    """The disk is full, the folder is read-only, or the writer belongs to another process."""


class NotInRun(RunError, LookupError):
    """The run holds no such tensor, kind, statistic or rank."""


class RunWarning(UserWarning):
    """Part of a run was skipped because it is damaged."""
