"""What a program writes where a terminal is its stdout and stderr, or its stderr alone."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fresh


def written(
    command: Sequence[str], *, columns: int | None = None, stdout: bool = True, **options: Any
) -> tuple[int, str]:
    """Run a command as `fresh.run` does, on a terminal of so many columns; return its status, and what is written."""
    import fcntl  # no system but those with terminals has them
    import pty
    import termios

    ours, theirs = pty.openpty()
    if columns is not None:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def run() -> int:
        try:
            return fresh.run(command, stdout=theirs if stdout else None, stderr=theirs, **options).returncode
        finally:
            os.close(theirs)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        text = b""
        try:
            while piece := os.read(ours, 65536):
                text += piece
        except OSError:  # Linux's way to say that the other end is closed
            pass
        os.close(ours)
        return running.result(), text.decode().replace("\r\n", "\n")
