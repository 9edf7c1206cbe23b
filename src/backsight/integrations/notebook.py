"""`%load_ext backsight`: under the traceback of a cell stands what an autograd error means, in IPython and Jupyter."""

from __future__ import annotations

import os
import sys
import weakref
from typing import TYPE_CHECKING, Any

from backsight.text import inert

if TYPE_CHECKING:
    from backsight.diagnosis import Finding
    from backsight.diagnosis.heeding import Heeding
    from backsight.launch.first_steps import FirstSteps

LEVELS = ("exact", "lines", "calls", "off")
VARIABLE = "BACKSIGHT_WATCH"
"""The environment variable that says how closely cells are watched, one of `LEVELS`: `%env BACKSIGHT_WATCH=calls`."""


class Explaining:
    """Listens to the events of one IPython shell, the public way to take part in the running of cells.

    Nothing is patched. The exception is explained after the cell has run, while its frames are alive; nothing of it is
    kept. Once PyTorch is there, cells are watched as `backsight run` watches a program: exactly, each for its first
    calls and steps, and the first steps of a training are audited.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._before: list[BaseException | None] = []
        """The last error before each cell that is running: `%%capture` runs a cell within the cell."""
        self._steps: FirstSteps | None = None
        self._heeding: Heeding | None = None
        self._told: set[tuple[str, str]] = set()
        self._cleans: Any = None
        self._begun = False

    def start(self) -> None:
        self._begin_to_watch()
        self._starts(None)  # of the cell that loads this, which is running
        self._shell.events.register("pre_run_cell", self._starts)
        self._shell.events.register("post_run_cell", self._ended)

    def stop(self) -> None:
        self._before.clear()
        if self._steps is not None:
            self._steps.stop()
        if self._heeding is not None:
            self._heeding.remove()
        if getattr(self._shell.CustomTB, "__func__", None) is self._cleans:
            self._shell.set_custom_exc((), None)
        for event, callback in (("pre_run_cell", self._starts), ("post_run_cell", self._ended)):
            try:
                self._shell.events.unregister(event, callback)
            except ValueError:  # removed already
                continue

    def _begin_to_watch(self) -> None:
        if self._begun or "torch" not in sys.modules:
            return
        self._begun = True
        try:
            from backsight.diagnosis.heeding import Heeding

            self._heeding = Heeding(lambda finding: _show(self._shell, finding))
            level = self._level()
            if level != "off":
                from backsight.launch.first_steps import FirstSteps

                self._steps = FirstSteps(None if level == "exact" else level)  # type: ignore[arg-type]
        except Exception as failure:  # explanations go on without what it would know
            print(inert(f"backsight: not watching: {type(failure).__name__}"), file=sys.stderr)

    def _level(self) -> str:
        """Return how closely is watched: as was asked, and not each call if its frames could not be kept from sight."""
        level = os.environ.get(VARIABLE, "exact")
        if level not in LEVELS:
            text = f"backsight: {VARIABLE} expects exact, lines, calls or off, not {level!r}: watching exactly"
            print(inert(text), file=sys.stderr)
            level = "exact"
        if level == "exact" and self._shell.custom_exceptions:
            return "lines"  # the shell shows some exceptions in a way of its own
        if level == "exact":
            self._shell.set_custom_exc((BaseException,), _shown_without_us)
            self._cleans = self._shell.CustomTB.__func__
        return level

    def _starts(self, info: Any) -> None:
        self._before.append(getattr(sys, "last_value", None))
        if self._steps is not None:
            self._steps.again()

    def _ended(self, result: Any) -> None:
        """Called by IPython with the result of a cell, once its traceback has been shown."""
        before = self._before.pop() if self._before else None
        self._begin_to_watch()
        self._explain(result, before)
        self._report()

    def _report(self) -> None:
        """Show what was found in the steps of this cell, each finding once."""
        if self._steps is None:
            return
        for finding in self._steps.report().without_notes():
            if (finding.code, finding.title) not in self._told:
                self._told.add((finding.code, finding.title))
                _show(self._shell, finding)

    def _explain(self, result: Any, before: BaseException | None) -> None:
        error = getattr(result, "error_in_exec", None)
        if error is None:  # `%run script.py` shows the traceback itself and lets the cell succeed
            shown = getattr(sys, "last_value", None)
            error = shown if shown is not before else None
        # PyTorch has to be there for an autograd error; an interrupt asks for an end, and for no more.
        if not isinstance(error, Exception) or "torch" not in sys.modules:
            return
        try:
            finding = _explained(error)
            if finding is not None:
                finding = self._heeding.shortened(finding) if self._heeding is not None else finding
                _show(self._shell, finding)
        except Exception as failure:  # the notebook goes on; its traceback stands above
            print(inert(f"backsight: no explanation: {type(failure).__name__}"), file=sys.stderr)


def _shown_without_us(
    shell: Any, kind: type[BaseException], error: BaseException, trace: Any, tb_offset: int | None = None
) -> None:
    """Have IPython show the traceback of a cell as it does, without the frames that have watched calls into PyTorch."""
    from backsight.tracing import cleaned

    cleaned(error)
    shell.showtraceback((kind, error, error.__traceback__), running_compiled_code=True)


def load_ipython_extension(shell: Any) -> None:
    """Explain the errors of a shell's cells from now on: `%load_ext backsight`."""
    if shell not in _running:
        _running[shell] = Explaining(shell)
        _running[shell].start()


def unload_ipython_extension(shell: Any) -> None:
    """Stop, and leave nothing behind: `%unload_ext backsight`."""
    explaining = _running.pop(shell, None)
    if explaining is not None:
        explaining.stop()


_running: weakref.WeakKeyDictionary[Any, Explaining] = weakref.WeakKeyDictionary()


def _explained(error: BaseException) -> Finding | None:
    from backsight.diagnosis import UNKNOWN, explain

    finding = explain(error)
    return None if finding.code == UNKNOWN and finding.source is None else finding


def _show(shell: Any, finding: Finding) -> None:
    """Show a finding below the traceback: as HTML where there is a page to put it on, framed on a terminal."""
    if getattr(shell, "kernel", None) is not None:
        from IPython.display import display

        display({"text/html": finding._repr_html_(), "text/plain": str(finding)}, raw=True)  # type: ignore[no-untyped-call]  # untyped
        return
    from backsight.text.console import Console
    from backsight.text.rich import Panel

    console = Console(no_color=getattr(shell, "colors", "").lower() == "nocolor")
    if console.is_terminal:
        console.width = min(console.width, 110)
        console.print(
            Panel(finding, title="backsight explains", title_align="left", border_style="cyan", padding=(1, 2))
        )
    else:
        print(inert(f"\n{finding}"))
