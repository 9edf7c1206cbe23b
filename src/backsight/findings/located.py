"""`Located`: a line of evidence that knows which statement it is about, so that it can be shown in its place."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from backsight.source.cells import cell


class Statement(Protocol):
    """What a statement has to tell of itself: a `Place` of the source, a line that a watch has noted."""

    @property
    def file(self) -> str: ...

    @property
    def line(self) -> int: ...

    @property
    def text(self) -> str: ...


class Located(str):
    """Evidence about a statement: reads as text, and still knows the file, the line and what it says of it.

    >>> print(Located("train.py", 41, "loss.backward()", "frees the graph."))
    train.py:41  loss.backward()
        frees the graph.

    file: the path as the interpreter knows it; `line` and `end` are the first and last line of the statement.
    code: the statement in one line; empty where its source cannot be read.
    says: what it does.
    """

    file: str
    line: int
    end: int
    code: str
    says: str

    def __new__(cls, file: str, line: int, code: str, says: str, end: int | None = None) -> Located:
        where = f"{cell(file) or os.path.basename(file)}:{line}"
        self = super().__new__(cls, f"{where}  {code}\n    {says}" if code else f"{where}  {says}")
        self.file, self.line, self.code, self.says = file, line, code, says
        self.end = max(end or line, line)
        return self

    def __reduce__(self) -> tuple[Callable[..., Located], tuple[object, ...]]:
        return Located, (self.file, self.line, self.code, self.says, self.end)


def located(statement: Statement, says: str) -> Located:
    """Return a statement as evidence: where and what it is, and below it what it does."""
    end = getattr(statement, "end", None)
    return Located(statement.file, statement.line, statement.text, says, end if type(end) is int else None)
