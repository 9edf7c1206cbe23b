"""Running a failing script as python would, with or without a watch, and judging what is said of it."""

from __future__ import annotations

import contextlib
import io
import random
import re
import runpy
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from scripts import Script

import backsight as bs
from backsight.story.failure import failure_of


@dataclass(frozen=True)
class Told:
    """What is said of a script, beside what has to be."""

    script: Script
    finding: bs.Finding | None
    failed_at: str = ""
    failed: bool = True

    @property
    def missing(self) -> list[str]:
        """What is not as it has to be; empty if the cause was found."""
        found, head = self.finding, self.script.head
        if found is None:
            return ["nothing is said"]
        wrong = []
        if found.code != head["code"]:
            wrong.append(f"the code is {found.code}, not {head['code']}")
        if Path(found.source or "").name != self.script.source:
            wrong.append(f"the line is {found.source}, not {self.script.source}")
        if not any(_has(found.title, name) for name in head["variable"].split(" | ")):
            wrong.append(f"the title does not have {head['variable']}")
        if head["fix"].replace("'", '"') not in found.fix.replace("'", '"'):
            wrong.append(f"the fix does not have {head['fix']}")
        return wrong


def _has(title: str, name: str) -> bool:
    """Whether a title names a variable; in a path, either kind of quote is right."""
    title, name = (text.replace("'", '"') for text in (title, name))
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", title) is not None


def told(script: Script, watched: bool) -> Told:
    """Run a script that has to fail, or to warn, and return what is said of it; `watched` exactly, or afterwards."""
    with _alone(script), contextlib.ExitStack() as around:
        if watched:
            around.enter_context(bs.watch(level="exact"))
        listening = bs.explaining()
        failed_at, failed = "", False
        try:
            with listening:
                runpy.run_path(str(script.path), run_name="__main__")
        except Exception as error:
            failed = True
            source = failure_of(error).source
            failed_at = source or ""
    return Told(script, listening.findings[-1] if listening.findings else None, failed_at, failed)


@contextlib.contextmanager
def _alone(script: Script) -> Iterator[None]:
    """Give a script its own modules and warnings, the same random numbers each time, and nobody's ears."""
    path, modules, state = list(sys.path), set(sys.modules), random.getstate()
    always = torch.is_warn_always_enabled()
    sys.path.insert(0, str(script.path.parent))
    torch.set_warn_always(True)
    try:
        with torch.random.fork_rng(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("always")
            warnings.showwarning = lambda *given: None
            torch.manual_seed(0)
            with contextlib.redirect_stderr(io.StringIO()):
                yield
    finally:
        torch.set_grad_enabled(True)
        torch.set_warn_always(always)
        random.setstate(state)
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).parent == script.path.parent:
                del sys.modules[name]
