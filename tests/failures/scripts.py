"""The failing scripts, and what has to be said of each: written in its head.

    # code: BS201                       the code of the finding
    # variable: self.hidden             a name that its title has
    # cause: self.hidden = cell(x)      the statement that it points to, as it stands in the file
    # file: _model.py                   that file, if it is not the script itself
    # line: 3                           that line, of a file that exists only while the script runs
    # fix: detach                      a word of the fix
    # mended: ...                       why a later PyTorch runs it to its end, if one does

A script fails as its author's did: it knows nothing of backsight. Files that begin with an underscore belong to others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent
_HEAD = re.compile(r"# (code|variable|cause|file|line|fix|mended): (.*)\n")


@dataclass(frozen=True)
class Script:
    """A program that fails, and what is true of its failure."""

    path: Path

    @property
    def kind(self) -> str:
        """The class of failure: its folder."""
        return self.path.parent.name

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.path.stem}"

    @cached_property
    def head(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in self.path.read_text(encoding="utf-8").splitlines(keepends=True):
            entry = _HEAD.fullmatch(line)
            if entry is None:
                return found
            found[entry[1]] = entry[2]
        return found

    @cached_property
    def source(self) -> str:
        """Where the cause stands, as `file:line`."""
        file = self.path.with_name(self.head.get("file", self.path.name))
        if "line" in self.head:
            return f"{file.name}:{self.head['line']}"
        lines = enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        (number,) = [n for n, text in lines if text.strip() == self.head["cause"]]
        return f"{file.name}:{number}"


def scripts() -> list[Script]:
    """Every script, by class."""
    return [Script(path) for path in sorted(ROOT.glob("*/*.py")) if not path.name.startswith("_")]
