"""An error of which there is only the text of its traceback: explained from the source files that it names.

The files are read and compiled, and nothing of them runs: an explanation sees which function each line is in, and no
value of any variable.
"""

from __future__ import annotations

import builtins
import linecache
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, NamedTuple, cast

from backsight.diagnosis.errors import known
from backsight.diagnosis.explained import explained_failure
from backsight.diagnosis.finding import Finding
from backsight.findings.evidence import as_read
from backsight.quiet import quietly
from backsight.source.body import short_path
from backsight.story.failure import Level, failure_from
from backsight.tape import ENGINE_CALLS


class Line(NamedTuple):
    """A line of a traceback: the file, the number, the function that it is in, and the text that is quoted of it."""

    file: str
    number: int
    function: str
    text: str

    @property
    def is_library(self) -> bool:
        return bool(_INSTALLED.search(self.file))


_LINE = re.compile(r'^[^"\n]*File "([^"\n]+)", line (\d+), in (.*)\n(?:[^"\n]*?    (\S.*))?', re.MULTILINE)
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python\d|^<")


def lines_of(text: str) -> Iterator[Line]:
    """Yield the lines that a traceback names, outermost first."""
    for found in _LINE.finditer(text):
        file, number, function, quoted = found.groups()
        yield Line(file, int(number), function.strip(), (quoted or "").strip())


class NotRead(Exception):
    """Why the source that a traceback names does not help: the end of a sentence."""


@dataclass(frozen=True, eq=False)
class _Frame:
    """Stands for a frame of a program that has ended: it has the code, and no variables."""

    f_code: CodeType
    f_lineno: int
    f_globals: dict[str, object]
    f_locals: dict[str, object] = field(default_factory=dict)
    f_builtins: dict[str, object] = field(default_factory=dict)
    f_back: None = None
    f_lasti: int = -1
    f_trace: None = None


def explained_text(kind: str, message: str, lines: Sequence[Line]) -> Finding | None:
    """Explain an error from the source, by its class, its message, and the lines of its traceback.

    None if no explanation knows the message; NotRead is raised if a file is not there, or has other lines now.
    """
    error = _error(kind, message)
    entry = known(message, error)
    if entry is None or all(each.is_library for each in lines):
        return None
    levels = [level for each in lines if (level := _engine(each) if each.is_library else _level(each)) is not None]
    finding = explained_failure(failure_from(error, tuple(levels)), entry[0])
    return replace(finding, evidence=as_read(finding.evidence), exact=False)


def _error(kind: str, message: str) -> Exception:
    """Return an error like the one that the text tells; a RuntimeError for a class that is not there, or takes more."""
    made = getattr(builtins, kind, None)
    try:
        return made(message) if isinstance(made, type) and issubclass(made, Exception) else RuntimeError(message)
    except TypeError:  # a UnicodeDecodeError
        return RuntimeError(message)


def _level(line: Line) -> Level:
    """Return a level of the traceback that is in the program; NotRead if its file is not there, or has another line."""
    name = short_path(line.file)
    if not os.path.isfile(line.file):
        raise NotRead(f"there is no file {name} here.")
    linecache.checkcache(line.file)
    now = linecache.getline(line.file, line.number).strip()
    if not line.text:
        raise NotRead(f"the traceback does not quote line {line.number} of {name}.")
    if now != line.text:
        raise NotRead(f"line {line.number} of {name} is not what the traceback quotes.")
    code = _code(line)
    if code is None:
        raise NotRead(f"line {line.number} of {name} is not in {line.function} now.")
    main = "__main__" if line.function == "<module>" else os.path.splitext(os.path.basename(line.file))[0]
    return Level(cast(Any, _Frame(code, line.number, {"__name__": main})), line.number)


def _code(line: Line) -> CodeType | None:
    """Return the code of the function that a line is in, compiled from the file and not run."""
    try:
        with quietly(module=".*"):
            whole = compile("".join(linecache.getlines(line.file)), line.file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = [each for each in _codes(whole) if each.co_name == line.function and line.number in _numbers(each)]
    return max(found, key=lambda code: code.co_firstlineno, default=None)


def _codes(whole: CodeType) -> Iterator[CodeType]:
    stack = [whole]
    while stack:
        yield (code := stack.pop())
        stack += [each for each in code.co_consts if isinstance(each, CodeType)]


def _numbers(code: CodeType) -> set[int | None]:
    return {number for _, _, number in code.co_lines()}


def _engine(line: Line) -> Level | None:
    """Return the level of a function of PyTorch's that starts the engine; None for any other of a library's."""
    for code in ENGINE_CALLS:
        tail = "/".join(code.co_filename.replace(os.sep, "/").split("/")[-3:])
        if code.co_name == line.function and line.file.replace("\\", "/").endswith(tail):
            return Level(cast(Any, _Frame(code, line.number, {"__name__": "torch"})), line.number)
    return None
