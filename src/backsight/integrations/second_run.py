"""The second run of a test that has failed, under an exact watch, in a forked process: no other test sees any of it.

The child has the fixtures of the session as the first run left them, and the random numbers that it began with. It
writes nothing but what is to be said of the test, through a pipe, and ends without the ends that a process has: what
tests after this one see (fixtures, modules, random numbers, warnings, captured output) stays as it is in the parent.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
import torch
from _pytest.runner import runtestprotocol

from backsight.quiet import hide, show
from backsight.tracing import finest, watch

_LONGEST = 60.0  # seconds, besides so many times what the first run took:
_TIMES_AS_LONG = 20.0
_NO_DEVICE_THREADS = "Unable to handle autograd's threading in combination with fork"


class NotRun(Exception):
    """The test was not run again, or not to its end; the text says why, as part of a sentence."""


def second_run(
    item: pytest.Item, nextitem: pytest.Item | None, title: str, random_state: Callable[[], None], took: float
) -> str:
    """Run a test once more, watched, in a forked process; return what the section `title` of its reports says.

    Args:
        random_state: puts the random generators back to where the first run began.
        took: the seconds that the first run took.

    Returns:
        The text; nothing if the test did not fail in this way again.

    Raises:
        NotRun: if this process cannot be forked, or if the second run ended by itself without a word.
    """
    _refuse()
    reading, writing = os.pipe()
    hidden = hide(DeprecationWarning)  # Python 3.12 counts the threads of OpenMP, too
    try:
        child = os.fork()
    except OSError as error:
        os.close(writing)
        os.close(reading)
        raise NotRun(f"this process could not be forked ({error.strerror})") from None
    finally:
        show(hidden)
    if child == 0:
        _run(item, nextitem, title, random_state, writing)
    os.close(writing)
    longest = _LONGEST + _TIMES_AS_LONG * took
    with contextlib.suppress(OSError):
        os.setpgid(child, child)  # as the child does itself: whoever comes first
    try:
        answer = _read(reading, time.monotonic() + longest)
    finally:
        os.close(reading)
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)  # with the processes that the test has started
        os.waitpid(child, 0)
    if answer is None:
        raise NotRun(f"its second run took more than {longest:.0f} s")
    if not answer:
        raise NotRun("its second run ended before the test did")
    said, reason = json.loads(answer)
    if reason:
        raise NotRun(reason)
    return str(said)


def _refuse() -> None:
    """Raise NotRun where a fork of this process could not run the test as this process did."""
    if sys.platform != "linux":  # the libraries of macOS do not survive a fork
        raise NotRun("a rerun forks this process, and forks are only safe on Linux")
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        raise NotRun("CUDA is in use, and a fork of this process could not use it")
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            raise NotRun(f"a fork of this process would lack its thread {thread.name}")


def _read(pipe: int, end: float) -> bytes | None:
    """Read a line, or what there is before the other side ends; None if it has not come until `end`."""
    answer = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not answer.endswith(b"\n"):
            if not selector.select(max(0.0, end - time.monotonic())):
                return None
            part = os.read(pipe, 1 << 16)
            if not part:
                return b""
            answer += part
    return answer


def _run(
    item: pytest.Item, nextitem: pytest.Item | None, title: str, random_state: Callable[[], None], pipe: int
) -> NoReturn:
    """Be the child."""
    try:
        os.setpgid(0, 0)
        gc.freeze()  # what the parent has left to its collector is not finalized here as well
        _cut_off(item.config)
        torch.set_num_threads(1)  # the threads of OpenMP are not in a fork
        random_state()
        item._initrequest()  # type: ignore[attr-defined]  # as all who run a test again
        with watch(level=finest()):
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        said = [text for report in reports for name, text in report.sections if name == title]
        lost = any(_NO_DEVICE_THREADS in str(report.longrepr) for report in reports if report.failed)
        reason = "autograd's threads for devices run, which a fork of this process would lack" if lost else ""
        answer = json.dumps([said[0] if said else "", reason]).encode() + b"\n"
        while answer:
            answer = answer[os.write(pipe, answer) :]
    finally:
        os._exit(0)


def _cut_off(config: pytest.Config) -> None:
    """Let nothing that is written here reach the terminal, the log or what the parent has captured."""
    terminal = config.get_terminal_writer() if config.pluginmanager.has_plugin("terminalreporter") else None
    if terminal is not None:
        terminal.fullwidth = terminal.fullwidth  # it would ask the terminal, which is gone
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    capturing = capture is not None and capture.is_globally_capturing()
    if capturing:
        capture.stop_global_capturing()  # its files are the parent's, too
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    if capturing:
        capture.start_global_capturing()
        capture.suspend_global_capture()
    faulthandler.disable()
    log: Any = getattr(config.pluginmanager.get_plugin("logging-plugin"), "log_file_handler", None)
    if log is not None:
        log.setStream(open(os.devnull, "w"))  # noqa: SIM115  # as long as the process
    for debugger in ("pdbinvoke", "pdbtrace"):
        if config.pluginmanager.has_plugin(debugger):
            config.pluginmanager.unregister(name=debugger)
