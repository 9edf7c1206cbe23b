"""`%load_ext backsight`: under the traceback of a cell stands what an autograd error means, in IPython and Jupyter."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

from backsight.text import inert

if TYPE_CHECKING:
    from backsight.diagnosis import Finding
    from backsight.diagnosis.heeding import Heeding
    from backsight.tracing import Watch


class Explaining:
    """Listens to the events of one IPython shell, the public way to take part in the running of cells.

    Nothing is patched, and the traceback is IPython's own. The exception is explained after the cell has run, while its
    frames are alive; nothing of it is kept.

    Once PyTorch is there, optimizer steps and module calls are noted (`watch`), which makes many explanations exact.
    Not more of it: what watches every operation stands in the tracebacks that IPython shows.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._before: list[BaseException | None] = []
        """The last error before each cell that is running: `%%capture` runs a cell within the cell."""
        self._watch: Watch | None = None
        self._heeding: Heeding | None = None

    def start(self) -> None:
        self._begin_to_watch()
        self._starts(None)  # of the cell that loads this, which is running
        self._shell.events.register("pre_run_cell", self._starts)
        self._shell.events.register("post_run_cell", self._ended)

    def stop(self) -> None:
        self._before.clear()
        if self._watch is not None:
            self._watch.__exit__(None, None, None)
        if self._heeding is not None:
            self._heeding.remove()
        for event, callback in (("pre_run_cell", self._starts), ("post_run_cell", self._ended)):
            try:
                self._shell.events.unregister(event, callback)
            except ValueError:  # removed already
                continue

    def _begin_to_watch(self) -> None:
        if self._watch is not None or "torch" not in sys.modules:
            return
        try:
            from backsight.diagnosis.heeding import Heeding
            from backsight.tracing import watch

            self._watch = watch(level="calls")
            self._watch.__enter__()
            self._heeding = Heeding(lambda finding: _show(self._shell, finding))
        except Exception as failure:  # explanations go on without what it would know
            print(inert(f"backsight: nothing is watched: {type(failure).__name__}"), file=sys.stderr)

    def _starts(self, info: Any) -> None:
        self._before.append(getattr(sys, "last_value", None))

    def _ended(self, result: Any) -> None:
        """Called by IPython with the result of a cell, once its traceback has been shown."""
        before = self._before.pop() if self._before else None
        self._begin_to_watch()
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
                _show(self._shell, finding)
        except Exception as failure:  # the notebook goes on; its traceback stands above
            print(inert(f"backsight: no explanation: {type(failure).__name__}"), file=sys.stderr)


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
    return None if finding.code == UNKNOWN else finding


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
