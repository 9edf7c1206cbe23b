"""Opening what lies in the folder of a run: files, and none that has no end."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backsight.runs.errors import DamagedRun

LARGEST_DOCUMENT = 64 << 20
"""Bytes of a file that holds one object; a recording writes a tenth of that."""


@contextmanager
def opened(path: Path) -> Iterator[io.FileIO]:
    """Open a file for reading.

    Raises:
        FileNotFoundError: if there is none, which may be as it should.
        DamagedRun: if it cannot be read, or is no file: a pipe would keep us waiting, and a device never end.
    """
    try:
        with io.FileIO(path, opener=_regular) as file:
            yield file
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedRun(f"{path} cannot be read: {error.strerror or error}.") from error


def content(path: Path) -> bytes:
    """Return what is in a file that holds one object, without the newline at its end.

    Raises:
        FileNotFoundError: if there is none.
        DamagedRun: as `opened`, and if it is too large to have been written by a recording.
    """
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST_DOCUMENT:
            raise DamagedRun(f"{path} has {size:,} bytes, which is more than a recording writes.")
        return file.readall().rstrip(b"\n")


def _regular(path: str, flags: int) -> int:
    file = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise OSError(errno.EINVAL, "it is not a file", path)
    return file
