"""The failing scripts, and what has to be said of each: written in its head.

    # code: BS201                       the code of the finding
    # variable: self.hidden             a name that its title has
    # cause: self.hidden = cell(x)      the statement that it points to, as it stands in the file
    # file: _model.py                   that file, if it is not the script itself
    # line: 3                           that line, of a statement that stands there twice, or of a file of the run
    # fix: detach                      a word of the fix
    # or: self.hidden = cell(self.hidden)    another form of that statement, of which the same is said in other words
    # varied: h = cell(x, h)            the statement that has those forms, if it is not the cause itself
    # unsure: ...                       why nobody can be sure of the cause, if even a watch is not
    # mended: ...                       why a later PyTorch runs it to its end, if one does

A script fails as its author's did: it knows nothing of backsight. Files that begin with an underscore belong to others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent
_EXAMPLES = ROOT.parents[1] / "examples" / "broken"
_FAIL_WITHOUT_PROCESSES = 16
_HEAD = re.compile(r"# (code|variable|cause|file|line|fix|or|varied|unsure|mended): (.*)\n")


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
    def forms(self) -> list[str]:
        """What stands there in turn instead of a statement; `\\n` parts the lines of a form that has several."""
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        return [entry[2] for entry in map(_HEAD.fullmatch, lines) if entry is not None and entry[1] == "or"]

    def written_as(self, form: str) -> str:
        """The text of the script with a form of its cause, or of what is varied."""
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        number = (
            _number_of(self.head["varied"], self.path) if "varied" in self.head else int(self.source.rpartition(":")[2])
        )
        indent = lines[number - 1][: -len(lines[number - 1].lstrip())]
        lines[number - 1] = "".join(f"{indent}{line}\n" for line in form.split("\\n"))
        return "".join(lines)

    @cached_property
    def source(self) -> str:
        """Where the cause stands, as `file:line`."""
        file = self.path.with_name(self.head.get("file", self.path.name))
        if "line" in self.head:
            return f"{file.name}:{self.head['line']}"
        return f"{file.name}:{_number_of(self.head['cause'], file)}"


def _number_of(statement: str, file: Path) -> int:
    lines = enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
    (number,) = [number for number, text in lines if text.strip() == statement]
    return number


def scripts() -> list[Script]:
    """Every script, by class."""
    return [Script(path) for path in sorted(ROOT.glob("*/*.py")) if not path.name.startswith("_")]


def examples() -> list[Script]:
    """Those of `examples/broken` that raise an error in this process; what is expected of each is in `tests/matrix`."""
    return [Script(path) for path in sorted(_EXAMPLES.glob("*.py"))[:_FAIL_WITHOUT_PROCESSES]]
