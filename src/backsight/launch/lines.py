"""Lines of JSON for tools and editors: one object for each thing that backsight has to say (docs/json.md)."""

from __future__ import annotations

import json
import os
from typing import Any, Literal

from backsight.launch.ranks import rank, ranks

VERSION = 1
"""Of the shape of the objects. Fields may come along; none changes its meaning or goes without another number."""


class Lines:
    """What was asked for on the command line.

    stderr: lines there, in place of what a person would read.
    file: lines at the end of this file, in addition to it.
    """

    def __init__(self) -> None:
        self.stderr = False
        self.file: str | None = None
        self.program = ""

    def ask(self, program: str, *, stderr: bool, file: str | None) -> None:
        """Set what is asked for, before the program starts: it may go to another folder."""
        self.program, self.stderr = program, stderr
        self.file = os.path.abspath(file) if file is not None else None

    def are_asked_for(self) -> bool:
        return self.stderr or self.file is not None

    def line(self, kind: Literal["explanation", "finding", "message"], **fields: Any) -> str:
        """Return one object as a line."""
        about = {"backsight": VERSION, "kind": kind, "program": self.program}
        where = {"rank": rank(), "ranks": ranks(), "process": os.getpid()}
        return f"{json.dumps({**about, **where, **fields})}\n"

    def keep(self, text: str) -> None:
        """Add lines to the file, in one piece, as other ranks write to it too.

        Raises:
            OSError: if they cannot be written.
        """
        if self.file is None:
            return
        handle = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)


as_lines = Lines()
"""Those of this process."""
