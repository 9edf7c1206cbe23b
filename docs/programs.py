"""Run the programs and the blocks of code that pages show. What they say comes back as text."""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

HERE = Path(__file__).parent
WIDTH = 100

_HEADLINE = re.compile(r"\n(backsight explains|backsight found[^\n]*)\n-+\n")
_IMPORTS_US = re.compile(r"^ *(import|from) backsight\b", re.MULTILINE)
_EXCEPTION = re.compile(r"\w[\w.]*(Error|Exception): ")


@dataclass(frozen=True)
class Run:
    """What a program said: its stdout, its own stderr, and what backsight added.

    It runs under `backsight run`, unless it imports backsight itself; then `backsight` may be what it printed.
    """

    status: int
    out: str
    err: str
    backsight: str

    @property
    def pytorch(self) -> str:
        """The message of the exception that ended the program."""
        lines = re.sub(r"^\[rank0\]: ", "", self.err, flags=re.MULTILINE).rstrip().split("\n")
        start = max((k for k, line in enumerate(lines) if _EXCEPTION.match(line)), default=None)
        if start is None:
            raise ValueError(f"no exception ended the program:\n{self.err}")
        return _wrapped("\n".join(lines[start:]))


@lru_cache(None)
def program(source: str, name: str, *options: str) -> Run:
    """Run a program under `backsight run` with these options, or by itself if it imports backsight."""
    by_itself = _IMPORTS_US.search(source) is not None
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_text(source, encoding="utf-8")
        status = _started(folder, name=name, options=None if by_itself else ["--quiet", *options])
        out, err = (Path(folder, stream).read_text(encoding="utf-8") for stream in ("out", "err"))
    err, *rest = _HEADLINE.split(err)
    said = rest[-1] if rest else out if by_itself else ""
    return Run(status, out, err, said.strip())


def blocks(name: str, sources: Sequence[str]) -> list[str]:
    """Run blocks of one script in turn, in one namespace, and return what each prints.

    Raises:
        ValueError: with the traceback, if one fails.
    """
    lines = [1 + sum(source.count("\n") for source in sources[:k]) for k in range(len(sources))]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_text("".join(sources), encoding="utf-8")
        status = _started(folder, name=name, blocks=list(zip(lines, sources, strict=True)))
        if status != 0:
            raise ValueError(f"the code of {name} fails:\n{Path(folder, 'err').read_text(encoding='utf-8')}")
        prints: list[str] = json.loads(Path(folder, "prints.json").read_text(encoding="utf-8"))
    return prints


# Named as a part of the interpreter: else each search through the files of a program would read the starter's as well.
_START = """
import sys
with open(sys.argv[1], encoding="utf-8") as file:
    code = compile(file.read(), "<frozen starter>", "exec")
exec(code, {"__name__": "<frozen starter>"})
"""

_local = threading.local()


def _started(folder: str, **order: object) -> int:
    """Have the starter of this thread run an order, and return the exit status."""
    if not hasattr(_local, "starter"):
        starter = _local.starter = subprocess.Popen(
            [sys.executable, "-c", _START, str(HERE / "starter.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env={**os.environ, "COLUMNS": str(WIDTH), "PYTHONPATH": _path(), "PYTHONIOENCODING": "utf-8"},
        )
        atexit.register(starter.communicate)
    starter = _local.starter
    starter.stdin.write(json.dumps({"folder": folder, **order}) + "\n")
    starter.stdin.flush()
    answer = starter.stdout.readline()
    if not answer:
        raise RuntimeError("the starter of programs has ended: see what it wrote on stderr")
    return int(answer)


def _path() -> str:
    """Return a PYTHONPATH in which the blocks of pages find `given.py`, which is beside the pages."""
    return os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(HERE)]))


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.fill(line, WIDTH, break_long_words=False) for line in text.split("\n"))
