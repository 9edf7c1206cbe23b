"""The observer of `backsight run`: audits the first steps of a training, explains the error that ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backsight.launch.arrival import when_imported
from backsight.launch.voice import failed, rank, say, show

if TYPE_CHECKING:
    from backsight.launch.first_steps import FirstSteps


class TrainingObserver:
    """Watches a program through PyTorch's own global hooks, once it has imported torch; else does nothing at all.

    What it has to say goes to stderr, after the program's own output.
    """

    def __init__(self, *, quiet: bool = False, notes: bool = False):
        self.quiet, self.notes = quiet, notes
        self._steps: FirstSteps | None = None
        self._failed = False

    def start(self) -> None:
        when_imported("torch", self._begin)

    def _begin(self) -> None:
        try:
            from backsight.launch.first_steps import FirstSteps

            self._steps = FirstSteps()
        except Exception as failure:  # a failure of ours is not a failure of the program
            failed("not watching", failure)

    def error(self, error: BaseException) -> None:
        self._failed = True
        if self._steps is None:
            return
        from backsight.diagnosis import UNKNOWN, explain

        finding = explain(error)
        if finding.code != UNKNOWN:
            show(finding, title="backsight explains")

    def finish(self) -> None:
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
