"""The observer of `backsight run`: audits the first steps of a training, explains the error that ends it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from backsight.launch.arrival import when_imported
from backsight.launch.ranks import rank
from backsight.launch.voice import failed, say, show

if TYPE_CHECKING:
    from backsight.diagnosis import Finding
    from backsight.diagnosis.heeding import Heeding
    from backsight.launch.births import BirthWatch
    from backsight.launch.first_steps import FirstSteps
    from backsight.launch.leaks import LeakWatch
    from backsight.launch.threads import ThreadErrors
    from backsight.tracing import Level


class TrainingObserver:
    """Watches a program through PyTorch's own global hooks, once it has imported torch; else does nothing at all.

    What it has to say goes to stderr, after the program's own output.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        notes: bool = False,
        leaks: bool = False,
        nonfinite: bool = False,
        level: Level | None = None,
    ):
        self.quiet, self.notes, self.leaks = quiet, notes, leaks
        self._level = level
        self.nonfinite = nonfinite
        self._leaks: LeakWatch | None = None
        self._births: BirthWatch | None = None
        self._steps: FirstSteps | None = None
        self._threads: ThreadErrors | None = None
        self._heeding: Heeding | None = None
        self._arrived = self._failed = False

    def start(self) -> None:
        when_imported("torch", self._begin)

    def _begin(self) -> None:
        self._arrived = True
        try:
            from backsight.diagnosis.heeding import Heeding
            from backsight.launch.first_steps import FirstSteps
            from backsight.launch.threads import ThreadErrors

            self._steps = FirstSteps(self._level, nonfinite=self.nonfinite)
            self._threads = ThreadErrors(self._explain)
            self._heeding = Heeding(lambda finding: show(finding, title="backsight explains"))
            if self.leaks:
                from backsight.launch.leaks import LeakWatch

                self._leaks = LeakWatch()
            if self.nonfinite:
                from backsight.launch.births import BirthWatch

                self._births = BirthWatch(self._steps.watch, lambda finding: show(finding, title="backsight found"))
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
        try:
            self._tell()
        finally:
            if self._arrived and not self.quiet and rank() == 0:
                self._tell_newness()

    def _tell_newness(self) -> None:
        """Say that this PyTorch is newer than any that was tested, after all else: it may be why."""
        from backsight.launch.newness import newness

        line = newness(str(getattr(sys.modules.get("torch"), "__version__", "")))
        if line is not None:
            say(line)

    def _tell(self) -> None:
        if self._threads is not None:
            self._threads.stop()
        if self._heeding is not None:
            self._heeding.remove()
        if self._steps is None:
            return
        if self._births is not None:
            self._births.finish()
        self._steps.stop()
        from backsight.diagnosis import Report
        from backsight.diagnosis.births import BIRTH

        leaks = self._found_leaks()
        if self._failed or self._steps.failed:
            if leaks:  # as when a leak ends a program by filling the memory
                show(Report(leaks), title="backsight found")
            return
        told = self._births is not None and self._births.told
        audited = self._steps.report(origin_told=told)
        # Of births those are told that did harm, and at once; what grows is told once, by those who have looked longer.
        grows = {each.source for each in leaks}
        found = [each for each in audited.findings if each.code != "BS110" or each.source not in grows]
        found = [each for each in found if self._births is None or each.code != BIRTH]
        report = Report((*found, *leaks), audited.looked_at)
        shown = report if self.notes else report.without_notes()
        if shown.findings:
            show(shown, title="backsight found")
        elif not self.quiet and rank() == 0 and not told and not (self._heeding and self._heeding.told):
            from backsight.launch.summary import summary

            line = summary(self._steps, notes=len(report) - len(shown))
            say(line, steps=self._steps.steps, audits=self._steps.audits)

    def _found_leaks(self) -> tuple[Finding, ...]:
        if self._leaks is None:
            return ()
        self._leaks.stop()
        return self._leaks.findings
