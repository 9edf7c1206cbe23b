"""Running a failing script as python would, with or without a watch, and judging what is said of it."""

from __future__ import annotations

import contextlib
import gc
import io
import linecache
import random
import re
import runpy
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


def told(script: Script, watched: bool, form: str = "") -> Told:
    """Run a script that has to fail, or to warn, and return what is said of it; `watched` exactly, or afterwards.

    With a form of its cause, the script is read and run as if that stood in its file.
    """
    with _alone(script), contextlib.ExitStack() as around:
        if watched:
            around.enter_context(bs.watch(level="exact"))
        listening = bs.explaining()
        failed_at, failed = "", False
        try:
            with listening:
                if form:
                    _run(script.written_as(form), str(script.path))
                else:
                    runpy.run_path(str(script.path), run_name="__main__")
        except Exception as error:
            failed = True
            source = failure_of(error).source
            failed_at = source or ""
    return Told(script, listening.findings[-1] if listening.findings else None, failed_at, failed)


def _read() -> dict[str, Any]:
    """The files that are read, by a call: an explanation looks for tensors in each variable of who runs the program."""
    return linecache.cache


def _run(text: str, file: str) -> None:
    _read()[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), {"__name__": "__main__", "__file__": file})


def _alone(script: Script) -> contextlib.ExitStack:
    """Give a script its own modules and warnings, the same random numbers each time, and nobody's ears.

    No generator does so: where a program has some, each search for a name asks who waits.
    """
    left = contextlib.ExitStack()
    before = list(sys.path), set(sys.modules), random.getstate(), torch.is_warn_always_enabled()
    left.callback(_leave, script, *before)
    sys.path.insert(0, str(script.path.parent))
    torch.set_warn_always(True)
    left.enter_context(torch.random.fork_rng())
    left.enter_context(warnings.catch_warnings())
    warnings.simplefilter("always")
    warnings.showwarning = lambda *given: None
    torch.manual_seed(0)
    left.enter_context(contextlib.redirect_stdout(io.StringIO()))
    left.enter_context(contextlib.redirect_stderr(io.StringIO()))
    return left


def _leave(script: Script, path: list[str], modules: set[str], state: Any, always: bool) -> None:
    _read().pop(str(script.path), None)
    if not torch.is_grad_enabled():
        gc.collect()  # a generator that waits in a block ends it here, and not amid the next script
    torch.set_grad_enabled(True)
    torch.set_warn_always(always)
    random.setstate(state)
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).parent == script.path.parent:
            del sys.modules[name]
