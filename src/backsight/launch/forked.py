"""What forked processes have explained: each error is told once, where it comes out, or as the program ends.

A worker of a DataLoader or of a pool raises an error, and the process that started it raises it again, with no more
than the text of the first traceback. The worker has seen all there is to see, so its explanation is told there.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backsight.diagnosis import Finding

_TOLD, _HERE = "", " "
"""Instead of a message: that a finding was told; that the error came out where another one tells of it."""

Kind = tuple[str, str | None, str]

_KNOWN_OF_WORKERS = ("BS219",)
"""What is read from the data set, and told with a fix for workers."""

_SIZE = 8
"""Bytes in which the length of an entry is written before it."""


_OUT_OF_THE_WAY = 200
"""The descriptor from which on one is taken: those that the program gets are then as without us."""


class Explained:
    """Explanations that the processes of one program share: an unnamed file, which a fork leaves open in each.

    It is open as long as the program runs. A program may close all descriptors, as a daemon does, and get ours again
    for a file of its own: what is behind the descriptor is looked at before each use.
    """

    def __init__(self) -> None:
        from fcntl import F_DUPFD_CLOEXEC, fcntl

        with tempfile.TemporaryFile("ab+", buffering=0) as file:
            self._descriptor = fcntl(file.fileno(), F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)
        self._file = _identity(self._descriptor)

    def add(self, message: str, finding: Finding) -> None:
        """Note what this process has found of an error that is being raised."""
        self._write((message, finding))

    def told(self, finding: Finding) -> None:
        """Note that a finding is being told."""
        self._write((_TOLD, finding))

    def is_told(self, finding: Finding) -> bool:
        return _kind(finding) in {_kind(each) for message, each in self._entries() if message == _TOLD}

    def instead_of(self, finding: Finding, error: BaseException) -> Finding | None:
        """Return what a process has found of an error that was raised again here, if that says more.

        Where the data set of a worker is known here too, the finding tells what the whole program can do about it.
        """
        from backsight.diagnosis.explained import raised_elsewhere

        other = raised_elsewhere(error)
        text = other.text if other is not None else ""
        found = [each for message, each in self._entries() if message not in (_TOLD, _HERE) and message in text]
        for each in found:
            self._write((_HERE, each))
        if other is None or not found or finding.code in _KNOWN_OF_WORKERS:
            return None
        said = f"(It was raised {other.where}.)"
        return replace(found[-1], evidence=(*found[-1].evidence, said))

    def untold(self) -> list[Finding]:
        """Return what nobody has told so far, each once."""
        every = list(self._entries())
        told = {_kind(each) for message, each in every if message in (_TOLD, _HERE)}
        return list({_kind(each): each for message, each in every if _kind(each) not in told}.values())

    def _write(self, entry: tuple[str, Finding]) -> None:
        data = pickle.dumps(entry)
        if _identity(self._descriptor) == self._file:
            os.write(self._descriptor, len(data).to_bytes(_SIZE, "little") + data)

    def _entries(self) -> Iterator[tuple[str, Finding]]:
        at = 0
        while _identity(self._descriptor) == self._file:
            length = int.from_bytes(os.pread(self._descriptor, _SIZE, at), "little")
            if not length:
                return
            yield pickle.loads(os.pread(self._descriptor, length, at + _SIZE))
            at += _SIZE + length


def _identity(descriptor: int) -> tuple[int, int] | None:
    """Return which file a descriptor is; None if it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _kind(finding: Finding) -> Kind:
    return finding.code, finding.source, finding.title
