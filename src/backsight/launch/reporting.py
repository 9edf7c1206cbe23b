"""The observer of `backsight run --report`: records, and writes what was recorded into one HTML file at the end."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from backsight.launch.ranks import rank, ranks
from backsight.launch.recording import RecordingObserver
from backsight.launch.voice import failed


class ReportingObserver(RecordingObserver):
    """Records as `RecordingObserver` does; the report is written when the program has ended, however it did.

    report: the file, whose name ends in .html.
    keep: whether the recording stays; if not, and no folder was given for it, it is a temporary one.
    """

    def __init__(
        self,
        program: str,
        report: str,
        *,
        keep: bool,
        run: str | None = None,
        every: int | None = None,
        quiet: bool = False,
    ):
        super().__init__(program, run=run, every=every, quiet=quiet)
        self.report = report
        self._temporary = not keep and run is None and ranks() == 1  # several write into one folder, which has a name
        self._scratch: str | None = None

    def finish(self) -> None:
        try:
            super().finish()
        finally:
            if self._scratch is not None and not self._is_forked():
                shutil.rmtree(self._scratch, ignore_errors=True)

    def _close(self) -> None:
        super()._close()
        recorder = self._recording and self._recording.recorder
        if not recorder or self._is_forked() or rank() != 0 or not recorder.run.is_dir():
            return
        try:
            from backsight.runs import open_run
            from backsight.viewer import to_report

            to_report(open_run(recorder.run), self._start / self.report)
        except Exception as failure:  # the program has done its work, and what was recorded is still there
            self._temporary, self._scratch = False, None
            failed("no report", failure)

    @property
    def folder(self) -> Path | None:
        return None if self._temporary else super().folder

    def _shown_by(self, run: Path) -> str:
        return self.report if self._temporary else super()._shown_by(run)

    def _folder(self) -> Path:
        if not self._temporary:
            return super()._folder()
        self._scratch = tempfile.mkdtemp(prefix="backsight-")
        return Path(self._scratch) / self.program

    def _see(self, command: str, run: Path) -> str:
        return self.report if self._temporary else f"{super()._see(command, run)}, {self.report}"
