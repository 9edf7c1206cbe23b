"""How a program says which message of PyTorch it provokes, and how that message is caught and written down."""

from __future__ import annotations

import mmap
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Program:
    """A small program; `code` is the explanation that its message is meant for, None where there is none."""

    code: str | None
    run: Callable[[], object]
    warns: bool


PROGRAMS: dict[str, Program] = {}


class NotHere(Exception):
    """This PyTorch has nothing that could give the message."""


def provokes(code: str | None) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Enter a program that ends with an error of PyTorch's, one that the explanation `code` is meant for."""
    return _enter(code, warns=False)


def warns(code: str | None) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Enter a program that has PyTorch give a warning."""
    return _enter(code, warns=True)


def _enter(code: str | None, *, warns: bool) -> Callable[[Callable[[], object]], Callable[[], object]]:
    def enter(run: Callable[[], object]) -> Callable[[], object]:
        if run.__name__ in PROGRAMS:
            raise ValueError(f"two programs are called {run.__name__}")
        PROGRAMS[run.__name__] = Program(code, run, warns)
        return run

    return enter


def in_library(beginning: str) -> str:
    """Return the sentence of PyTorch's library that begins so: for what only a device raises.

    Raises:
        NotHere: if the library has none.
    """
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
        start = held.find(beginning.encode())
        if start < 0:
            raise NotHere(beginning)
        return held[start : held.find(b"\0", start)].decode()


Message = dict[str, object]


def collected() -> dict[str, Message | None]:
    """Run every program; None for those whose message this PyTorch does not give."""
    return {name: _message(program) for name, program in sorted(PROGRAMS.items())}


def _message(program: Program) -> Message | None:
    torch.manual_seed(0)
    torch.set_warn_always(True)  # what is given once a process must not depend on the order of the programs
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        try:
            program.run()
        except NotHere:
            return None
        except Exception as error:
            if program.warns:
                raise
            return _written(program, error)
        finally:
            torch.set_warn_always(False)
    return _written(program, given[-1].message) if program.warns and given else None


def _written(program: Program, said: BaseException | Warning) -> Message:
    message: Message = {"code": program.code, "type": type(said).__name__, "text": _steady(_text(said))}
    if said.__cause__ is not None:
        message["cause"] = _steady(_text(said.__cause__))
    return message


def _text(said: BaseException | Warning) -> str:
    return next((each for each in said.args if isinstance(each, str)), "")


_VARYING = (
    (r"\(Triggered internally at [^)]*\)", "(Triggered internally at FILE)"),
    (r"\b0x[0-9a-f]+\b", "0xADDRESS"),
    (r'File "[^"]*/site-packages/([^"]*)", line \d+', r'File "site-packages/\1", line 1'),
    (r'File "[^"]*/lib/python[\d.]+/([^"]*)", line \d+', r'File "lib/python/\1", line 1'),
    (r'File "/[^"]*/(\w+\.py)", line \d+', r'File "\1", line 1'),
    (r'(?m)^ *File "(collect|provoking)\.py", line 1, in .*\n +\S.*\n', ""),  # who runs the programs
    (r"(?m)^\S*:\d+:\S.*\n", ""),  # stack traces of C, of which a checkpoint's log has hundreds of lines
    (r"(?m)^[ ^~]+\n", ""),  # the marks below a line of a traceback, which each Python draws otherwise
)


def _steady(text: str) -> str:
    """Return a message without what differs from run to run, and from place to place."""
    for varying, steady in _VARYING:
        text = re.sub(varying, steady, text)
    return text
