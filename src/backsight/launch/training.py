"""The observer of `backsight run`: audits the first steps of a training, explains the error that ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backsight.launch.arrival import when_imported
from backsight.launch.ranks import rank
from backsight.launch.voice import failed, say, show

if TYPE_CHECKING:
    from backsight.launch.first_steps import FirstSteps
    from backsight.launch.threads import ThreadErrors


class TrainingObserver:
    """Watches a program through PyTorch's own global hooks, once it has imported torch; else does nothing at all.

    What it has to say goes to stderr, after the program's own output.
    """

    def __init__(self, *, quiet: bool = False, notes: bool = False):
        self.quiet, self.notes = quiet, notes
        self._steps: FirstSteps | None = None
        self._threads: ThreadErrors | None = None
        self._failed = False

    def start(self) -> None:
        when_imported("torch", self._begin)

    def _begin(self) -> None:
        try:
            from backsight.launch.first_steps import FirstSteps
            from backsight.launch.threads import ThreadErrors

            self._steps = FirstSteps()
            self._threads = ThreadErrors(self._explain)
        except Exception as failure:  # a failure of ours is not a failure of the program
            failed("not watching", failure)

    def error(self, error: BaseException) -> None:
        self._failed = True
        if self._steps is not None and isinstance(error, Exception):  # an interrupt asks for an end, and for no more
            self._explain(error)

    def _explain(self, error: BaseException, thread: str | None = None) -> None:
        from backsight.diagnosis import UNKNOWN, explain

        try:
            finding = explain(error)
        except Exception as failure:  # a failure of ours is not a failure of the program
            failed("no explanation", failure)
            return
        if finding.code != UNKNOWN:
            show(finding, title="backsight explains", thread=thread)

    def finish(self) -> None:
        if self._threads is not None:
            self._threads.stop()
        if self._steps is None:
            return
        self._steps.stop()
        if self._failed or self._steps.failed:
            return
        report = self._steps.report()
        shown = report if self.notes else report.without_notes()
        if shown.findings:
            show(shown, title="backsight found")
        elif not self.quiet and rank() == 0:
            from backsight.launch.summary import summary

            say(summary(self._steps, notes=len(report) - len(shown)))
