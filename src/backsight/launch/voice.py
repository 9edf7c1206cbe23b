"""How backsight speaks beside a program: on stderr, after the program's own output, framed only on a terminal."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO

from backsight.launch.ranks import rank, ranks
from backsight.text import inert, printable

if TYPE_CHECKING:
    from backsight.diagnosis import Finding, Report

_WIDEST = 110
"""Columns of a frame: longer lines are hard to read."""

_AT_ONCE = 4096
"""Bytes that a pipe takes in one piece (POSIX, PIPE_BUF on Linux): what others write cannot come in between."""

_PATIENCE = 2.0
"""Seconds to wait until another rank has finished what it says."""

_ours = threading.Lock()


class _OfSeveral:
    """Which of several programs this one is, `B (new.py)`, where one of them runs after the other; else empty."""

    NAME: Final = "BACKSIGHT_PROGRAM"
    """The variable of the environment that says so: the program itself does not find it there."""

    def __init__(self) -> None:
        self.program = ""

    def ask(self) -> None:
        self.program = os.environ.pop(self.NAME, "")


of_several = _OfSeveral()


class _Tries:
    """The command that tries the fix of an error of this program; empty in a run that it has started."""

    def __init__(self) -> None:
        self.command = ""

    def of(self, what: Finding | Report) -> str:
        """Return a line that tells of it, where a fix can be tried."""
        return f"To have this fix tried: {self.command}" if self.command and getattr(what, "edits", None) else ""


tries = _Tries()


def say(*lines: str, **fields: Any) -> None:
    """Print lines on stderr; nothing if the program has closed or removed it (`print` would then use stdout).

    fields: what a line of JSON has beside the text; `text`, where it has another one.
    """
    from backsight.launch.lines import as_lines

    if as_lines.are_asked_for():
        text = " ".join(line.strip() for line in lines).removeprefix("backsight: ")
        if _told(as_lines.line("message", **{"text": text, **fields})):
            return
    _put(_with_rank("".join(f"{printable(line)}\n" for line in lines)))


_failures: set[str] = set()


def failed(what: str, failure: BaseException) -> None:
    """Say in one line, once, that backsight, not the program, has failed; its text may be a user's, and raise.

    Nothing is said of a device that can no longer be used: the program meets the same error, and that is explained.
    """
    if _is_of_device(failure):
        return
    try:
        text = f"{type(failure).__name__}: {failure}"
    except Exception:
        text = type(failure).__name__
    line = f"backsight: {what}: {text}"
    if line not in _failures:
        _failures.add(line)
        say(line)


def _is_of_device(failure: BaseException) -> bool:
    """Whether the device itself has failed: after an assertion in a kernel, each call to it raises the same."""
    said = next((each for each in failure.args if type(each) is str), "")
    return issubclass(type(failure), RuntimeError) and bool(
        re.match(r"(?:CUDA|HIP|XPU) (?:error:|out of memory)", said)
    )


def show(what: Finding | Report, *, explains: bool, thread: str | None = None, caught: bool = False) -> None:
    """Print a finding or a report: framed and coloured on a terminal, plain in a file, as JSON if that was asked for.

    explains: whether it explains an error, and is not found in a training that goes on.
    thread: the name of the thread that it is about, if it is not the main one.
    caught: whether the program has caught the error, and goes on.
    """
    from backsight.launch.lines import as_lines

    if as_lines.are_asked_for():
        from backsight.diagnosis import Finding

        found = (what,) if isinstance(what, Finding) else what.findings
        kind: Literal["explanation", "finding"] = "explanation" if explains else "finding"
        if _told("".join(as_lines.line(kind, thread=thread, caught=caught, **finding.to_dict()) for finding in found)):
            return
    if sys.stderr is not None:
        several = 0 if explains else sum(each.severity != "note" for each in getattr(what, "findings", ()))
        title = "backsight explains" if explains else "backsight found"
        title += f" {several} problems" if several > 1 else ""
        title += f" in {of_several.program}" if of_several.program else ""
        title += "; fix them in this order" if several > 1 else ""
        title += ": an error that the program caught" if caught else ""
        ended = explains and thread is None and not caught and ranks() == 1
        title = printable(f"{title} (thread {thread})" if thread else title)
        _put(_with_rank(_drawn(what, title, printable(tries.of(what)) if ended else "")))


def _told(lines: str) -> bool:
    """Write lines of JSON where they were asked for. Return whether they stand in place of what a person reads."""
    from backsight.launch.lines import as_lines

    try:
        as_lines.keep(lines)
    except OSError as failure:
        as_lines.file = None  # so that it is told once
        failed("no lines of JSON", failure)
    if as_lines.stderr:
        _put(lines)
    return as_lines.stderr


def _with_rank(text: str) -> str:
    """Put the rank before each line, where there are several, as PyTorch does with the lines of a traceback.

    Source: torch/distributed/distributed_c10d.py, `_distributed_excepthook`.
    """
    if ranks() == 1:
        return text
    return "".join(f"[rank{rank()}]: {line}".rstrip() + "\n" for line in text.splitlines())


def _put(text: str) -> None:
    """Write whole lines on stderr."""
    stream = sys.stderr
    if stream is None:
        return
    try:
        with _turn(stream):
            for piece in _pieces(text):
                stream.write(piece)
                stream.flush()
    except (OSError, ValueError):  # closed or broken, and there is no other place to say so
        return


def _drawn(what: Any, title: str, below: str) -> str:
    from backsight.text.console import Console
    from backsight.text.rich import Panel

    console = Console(stderr=True)
    if not console.is_terminal:
        return inert(f"\n{title}\n{'-' * len(title)}\n{what}\n{below}{chr(10) if below else ''}")
    console.width = min(console.width, _WIDEST) - (len(f"[rank{rank()}]: ") if ranks() > 1 else 0)
    with console.capture() as captured:
        console.print(Panel(what, title=title, title_align="left", border_style="cyan", padding=(1, 2)))
        if below:
            console.print(below, style="dim", markup=False, highlight=False)
    return captured.get()


def _pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces of whole lines that a pipe takes at once; in one if there is nobody else to write."""
    if ranks() == 1:
        yield text
        return
    piece, size = "", 0
    for line in text.splitlines(keepends=True):
        length = len(line.encode(errors="replace"))
        if piece and size + length > _AT_ONCE:
            yield piece
            piece, size = "", 0
        piece, size = piece + line, size + length
    if piece:
        yield piece


@contextmanager
def _turn(stream: TextIO) -> Iterator[None]:
    """Hold other threads, and other ranks that share this stream, from speaking in between; but not forever."""
    held = _ours.acquire(timeout=_PATIENCE)
    try:
        with _turn_of_ranks(stream):
            yield
    finally:
        if held:
            _ours.release()


@contextmanager
def _turn_of_ranks(stream: TextIO) -> Iterator[None]:
    if ranks() == 1 or sys.platform == "win32":
        yield
        return
    import fcntl

    # A lock of the process, not of the open file, as the ranks have inherited one and the same.
    is_locked, until = False, time.monotonic() + _PATIENCE
    while not is_locked and time.monotonic() < until:
        try:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        except (BlockingIOError, PermissionError):  # both are used for "held by another"
            time.sleep(0.01)
        except (OSError, ValueError, AttributeError, TypeError):  # no file, such as a stream of the program's own
            break
    try:
        yield
    finally:
        if is_locked:
            fcntl.lockf(stream, fcntl.LOCK_UN)
