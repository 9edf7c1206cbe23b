"""The observer of `backsight run`: audits the first steps of a training, explains the error that ends it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from backsight.launch.arrival import when_imported
from backsight.launch.ranks import rank
from backsight.launch.voice import failed, say, show
from backsight.surface import missing, sentence

if TYPE_CHECKING:
    from backsight.diagnosis import Finding
    from backsight.diagnosis.heeding import Heeding
    from backsight.launch.births import BirthWatch
    from backsight.launch.caught import CaughtErrors, ThreadErrors
    from backsight.launch.first_steps import FirstSteps
    from backsight.launch.forked import Explained
    from backsight.launch.leaks import LeakWatch
    from backsight.launch.recording import RecordingObserver
    from backsight.launch.trained import Trained
    from backsight.tracing import Level


_T = TypeVar("_T")

UNWATCHED = (
    "backsight: explained from the traceback and the source, because only the first steps were watched.",
    "  To watch every step: backsight run --watch exact ...",
)


def _started(part: Callable[[], _T], otherwise: str) -> _T | None:
    """Start a part of the observer; where that fails, say what is lost: it is not a failure of the program."""
    try:
        return part()
    except BaseException as failure:
        from backsight.naming.roots import ours

        failed(otherwise, ours(failure))
        return None


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
        self.recording: RecordingObserver | None = None
        """What records the program beside this, if anything: some of what is found shows in a recording."""
        self._leaks: LeakWatch | None = None
        self._births: BirthWatch | None = None
        self._steps: FirstSteps | None = None
        self._threads: ThreadErrors | None = None
        self._heeding: Heeding | None = None
        self._caught: CaughtErrors | None = None
        self._shared: Explained | None = None
        self._ended_by: dict[int, tuple[str, str | None]] = {}
        """What was told of the errors that ended threads: one of them may end the program as well."""

        self.is_trial = False
        """Whether `backsight fix` runs it, and compares what its optimizers train."""
        self._trained: Trained | None = None
        self._begun = self._failed = False
        self._explained = 0

    def start(self) -> None:
        when_imported("torch", self._begin)

    def _begin(self) -> None:
        """Start each part by itself: one that cannot be started takes no other with it."""
        self._begun = True
        self._steps = _started(self._first_steps, "not watching")
        self._threads = _started(self._thread_errors, "errors that end a thread are not explained")
        self._heeding = _started(self._warnings, "warnings are not explained")
        if self._steps is not None:
            self._caught = _started(self._caught_errors, "errors that are caught are not explained")
        if self.leaks:
            self._leaks = _started(self._leak_watch, "not looking for leaks")
        if self.nonfinite and self._steps is not None:
            self._births = _started(self._birth_watch, "not looking for NaN")

        if self.is_trial:
            self._trained = _started(self._what_is_trained, "not looking at what is trained")

    def _what_is_trained(self) -> Trained:
        from backsight.launch.trained import Trained

        return Trained()

    def _first_steps(self) -> FirstSteps:
        from backsight.launch.first_steps import FirstSteps

        return FirstSteps(self._level, nonfinite=self.nonfinite)

    def _thread_errors(self) -> ThreadErrors:
        from backsight.launch.caught import ThreadErrors

        return ThreadErrors(self._explain)

    def _caught_errors(self) -> CaughtErrors:
        from backsight.launch.caught import CaughtErrors
        from backsight.launch.forked import Explained
        from backsight.tracing import report_errors

        assert self._steps is not None
        if hasattr(os, "fork"):
            self._shared = _started(Explained, "of an error in a forked process only its text is explained")
        caught = CaughtErrors(partial(self._tell, caught=True), self._shared)
        report_errors(self._steps.watch, caught)
        return caught

    def _warnings(self) -> Heeding:
        from backsight.diagnosis.heeding import Heeding

        return Heeding(lambda finding: show(finding, explains=True))

    def _keep(self, *findings: Finding) -> None:
        """Keep what is said with the recording, if there is one."""
        if self.recording is not None:
            self.recording.keep(*findings)

    def _leak_watch(self) -> LeakWatch:
        from backsight.launch.leaks import LeakWatch

        return LeakWatch()

    def _birth_watch(self) -> BirthWatch | None:
        from backsight.launch.births import BirthWatch

        if self._steps is None or self._steps.watch.level != "exact":
            return None  # the watch has said why

        def tell(finding: Finding) -> None:
            self._keep(finding)
            show(finding, explains=False)

        return BirthWatch(self._steps.watch, tell)

    def error(self, error: BaseException) -> None:
        self._failed = True
        if not isinstance(error, Exception):  # an interrupt asks for an end, and for no more
            self._caught = None
        elif self._begun:
            self._explain(error)

    def _explain(self, error: BaseException, thread: str | None = None) -> None:
        from backsight.diagnosis import UNKNOWN
        from backsight.diagnosis.births import BIRTH
        from backsight.diagnosis.explained import explanation
        from backsight.launch.lines import as_lines

        try:
            if self._caught is not None:
                self._caught.ended(error)
            finding = explanation(error)
            finding = (self._shared and self._shared.instead_of(finding, error)) or finding
        except BaseException as failure:  # a failure of ours is not a failure of the program
            from backsight.naming.roots import ours

            failed("no explanation", ours(failure))
            return
        if finding.code != UNKNOWN or finding.source is not None:  # it is PyTorch's, and where is known
            self._keep(finding)
            if self._heeding is not None and not as_lines.are_asked_for():
                finding = self._heeding.shortened(finding)
            if self._ended_by.get(id(error)) == (finding.code, finding.source) and not as_lines.are_asked_for():
                say(f"backsight: explained above: {finding.code} at {finding.source}: {finding.title}")
            else:
                self._tell(finding, thread=thread)
            self._ended_by[id(error)] = finding.code, finding.source
            if self._births is not None:
                self._births.told = self._births.told or finding.code == BIRTH
            if self._steps is not None and self._steps.paused:
                say(*UNWATCHED, unwatched=True)

    def _tell(self, finding: Finding, thread: str | None = None, caught: bool = False) -> None:
        """Show the explanation of an error; in a line what the program has explained itself."""
        from backsight.diagnosis.explained import is_asked_for
        from backsight.launch.lines import as_lines

        self._explained += 1
        if self._shared is not None:
            self._shared.told(finding)
        if is_asked_for(finding) and not as_lines.are_asked_for():
            at = f" at {finding.source}" if finding.source is not None else ""
            say(f"backsight: the program itself has explained its error: {finding.code}{at}")
        else:
            show(finding, explains=True, thread=thread, caught=caught)

    def finish(self) -> None:
        try:
            self._stop()
            if self._begun:
                self._report(self._found_leaks())
            if self.is_trial and self._steps is not None:
                from backsight.launch.lines import as_lines

                held = self._trained.told() if self._trained is not None else []
                as_lines.keep(as_lines.line("message", text="", steps=self._steps.steps, held=held))
        finally:
            if self._begun and not self.quiet and rank() == 0:
                self._tell_of_pytorch()

    def _stop(self) -> None:
        if self._threads is not None:
            self._threads.stop()
        if self._heeding is not None:
            self._heeding.remove()
        if self._caught is not None and (again := self._caught.finish()):
            say(f"backsight: errors of the kinds explained above were caught {again:,} more time{'s' * (again != 1)}")
        if self._births is not None:
            self._births.finish()
        if self._steps is not None:
            self._steps.stop()
        if self._trained is not None:
            self._trained.stop()

    def _tell_of_pytorch(self) -> None:
        """Say, after all else, what this PyTorch lacks, and that it is newer than any tested: it may be why.

        What is lacking is said below each explanation, as it may have made that poorer, and else once a day.
        """
        from backsight.launch.newness import first_today, newness

        lacked = missing()
        if lacked and (self._explained or first_today("lacking")):
            say(f"backsight: {sentence(lacked)}")
        if line := newness(str(getattr(sys.modules.get("torch"), "__version__", ""))):
            say(line)

    def _report(self, leaks: tuple[Finding, ...]) -> None:
        """Show what was found, or say in a line what was looked at."""
        from dataclasses import replace

        from backsight.diagnosis import Report
        from backsight.diagnosis.births import BIRTH

        if self._steps is None or self._failed or self._steps.failed:
            self._keep(*leaks)
            if leaks:  # as when a leak ends a program by filling the memory
                show(Report(leaks), explains=False)
            return
        told = self._births is not None and self._births.told
        audited = self._steps.report(origin_told=told)
        # Of births those are told that did harm, and at once; what grows is told once, by those who have looked longer.
        grows = {each.source for each in leaks}
        found = [each for each in audited.findings if each.code != "BS110" or each.source not in grows]
        found = [each for each in found if self._leaks is None or each.code != "BS111"]
        found = [each for each in found if self._births is None or each.code != BIRTH]
        found = [each for each in found if self._heeding is None or not self._heeding.has_said(each)]
        report = Report((*found, *leaks), audited.looked_at)
        shown = report if self.notes else report.without_notes()
        if self.recording is not None:
            self._keep(*shown)
            shown = replace(shown, findings=tuple(map(self.recording.led_into, shown)))
        if shown.findings:
            show(shown, explains=False)
        elif not self.quiet and rank() == 0 and not told and not (self._heeding and self._heeding.told):
            from backsight.launch.summary import for_tools, summary, untested

            notes = [each.code for each in report if not self.notes and each.severity == "note"]
            held = {each: getattr(self._steps, each) for each in ("steps", "audits", "trained")}
            counts = (self._steps, notes, self._explained)
            say(summary(*counts), text=for_tools(*counts), **held)
            for line in untested(self._steps):
                say(line)

    def _found_leaks(self) -> tuple[Finding, ...]:
        if self._leaks is None:
            return ()
        self._leaks.stop()
        return self._leaks.findings
