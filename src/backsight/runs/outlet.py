"""The files of one rank while they are written: one segment at a time, and lines beside it."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from backsight.runs import lines, places
from backsight.runs.errors import RunNotWritable
from backsight.runs.segments import LIVE
from backsight.runs.tidying import tidy
from backsight.runs.unlisted import Unlisted

SEGMENT_BYTES = 8 << 20
SEGMENT_FLUSHES = 1024
"""A segment that has grown to so many bytes, or flushes, is sorted and the next one begun."""


class Outlet:
    """Write blocks and lines, each whole or not at all; what cannot be written is taken back."""

    def __init__(self, folder: Path):
        self.folder = Path(os.path.abspath(folder))  # a program may go elsewhere
        self._made = _identity(self.folder)
        self.closed = False
        self._tidying: Unlisted | None = None
        self._pid = os.getpid()
        self._number = 0
        self._files: dict[str, Tail] = {}
        self._flushes = 0

    @property
    def mine(self) -> bool:
        """Whether this process opened the files; one that was forked off keeps its hands off them."""
        return os.getpid() == self._pid

    def check(self) -> None:
        """Raise `RunNotWritable` where nothing may be written any more."""
        if self.closed:
            raise RunNotWritable(f"{self.folder} is no longer written to: its writer was closed.")
        if not self.mine:
            raise RunNotWritable(
                f"{self.folder} belongs to process {self._pid}, but this is process {os.getpid()}, a fork of it. "
                "Record in the process that opened the run."
            )

    def _check_folder(self) -> None:
        if _identity(self.folder) != self._made:
            raise RunNotWritable(
                f"{self.folder} is gone: it was deleted together with the recorded data, or it was moved and the data "
                "is in the new place."
            )

    def blocks(self, data: bytes) -> None:
        """Append blocks to the segment, and begin the next one if it is full."""
        self._check_folder()  # open files would go on taking what nobody will find
        live = self._tail(self._live)
        self._guarded(live.path, lambda: live.append(data))
        self._flushes += 1
        if live.size >= SEGMENT_BYTES or self._flushes >= SEGMENT_FLUSHES:
            self._end_segment()
            self._tidy_beside()

    def line(self, name: str, values: Mapping[str, Any]) -> None:
        """Append a line."""
        tail = self._tail(name)
        data = lines.sealed(values)
        self._guarded(tail.path, lambda: tail.append(data))

    def document(self, name: str, data: bytes) -> None:
        """Replace a file at once."""
        self.check()
        target, unfinished = self.folder / name, self.folder / f"{name}.unfinished"

        def replace() -> None:
            unfinished.write_bytes(data)
            os.replace(unfinished, target)

        self._guarded(target, replace)

    def sync(self) -> None:
        """Wait until the disk has it."""
        for tail in self._files.values():
            self._guarded(tail.path, tail.sync)

    def close(self) -> None:
        """Sort what is left, and close the files."""
        if self.closed:
            return
        try:
            if self.mine:
                self._end_segment()  # and sort here: at the end of a program Python starts no threads any more
                if self._tidying is not None:
                    self._tidying.join()
                self._tidy(self._number)
                self._say_ended()
        finally:
            self.closed = True
            for tail in self._files.values():
                tail.close()

    def _say_ended(self) -> None:
        """Write down that the end was a regular one where a segment was left as it was: else it looks like a kill."""
        folder = self.folder
        if _identity(folder) == self._made and not any(folder.glob(f"*{LIVE}")):
            return
        values = {"event": "ended", "step": None, "time": time.time(), "details": {"why": "a segment is not sorted"}}
        with suppress(OSError, RunNotWritable):  # a disk may be full, or the folder gone
            self.line(places.EVENTS, values)

    def _end_segment(self) -> None:
        live = self._files.pop(self._live, None)
        if live is None:
            return
        live.close()
        self._number, self._flushes = self._number + 1, 0

    def _tidy_beside(self) -> None:
        """Sort in a thread of its own; if that is still at it, or there is none to be had, it is left to `close`."""
        if self._tidying is not None and self._tidying.alive:
            return
        below = self._number
        with suppress(RuntimeError):
            self._tidying = Unlisted(lambda: self._tidy(below))

    def _tidy(self, below: int) -> None:
        with suppress(Exception):  # most likely a full disk: live segments hold the same rows, and are read more slowly
            tidy(self.folder, below)

    @property
    def _live(self) -> str:
        return f"{self._number:06d}{LIVE}"

    def _tail(self, name: str) -> Tail:
        path = self.folder / name
        self.check()
        if name not in self._files:
            self._guarded(path, lambda: self._files.__setitem__(name, Tail(path)))
        return self._files[name]

    def _guarded(self, path: Path, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            self._check_folder()
            raise RunNotWritable(
                f"{path} cannot be written: {error.strerror or error}. What was written before is safe; free some "
                "space, or record into another folder."
            ) from error


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return what tells this folder from one that is made in its place; None if there is none."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class Tail:
    """A file that grows at its end; an append that fails leaves it as it was.

    A program may close all files that it has inherited, ours among them, and open others, which get their numbers. So
    before anything is done with a number it is asked whether it is still that of this file.
    """

    def __init__(self, path: Path):
        self.path = path
        self.size = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._file = os.open(path, flags, 0o666)
        self._made = self._identity()

    def _identity(self) -> tuple[int, int]:
        status = os.fstat(self._file)
        return status.st_dev, status.st_ino

    def _check(self) -> None:
        """Raise OSError where the number is another file's, or nobody's."""
        if self._identity() != self._made:
            raise OSError(errno.EBADF, "the program closed it")

    def append(self, data: bytes) -> None:
        """Append all of the data; one call of the system where that takes it all."""
        self._check()
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            self.size += len(data)
        except BaseException:  # a full disk, or Ctrl-C
            os.ftruncate(self._file, self.size)
            raise

    def sync(self) -> None:
        self._check()
        os.fsync(self._file)

    def close(self) -> None:
        try:
            self._check()
        except OSError:  # it is not ours to close
            return
        os.close(self._file)
