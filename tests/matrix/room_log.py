"""A plugin of pytest that writes a line of JSON for each test as it begins and as it ends: a crash loses no other.

It is loaded by `pytest -p room_log`, with the file in BACKSIGHT_ROOM_LOG. Processes of xdist leave it to the first one.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Log(os.environ["BACKSIGHT_ROOM_LOG"]))


class _Log:
    def __init__(self, file: str) -> None:
        self.file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._keep(nodeid, "began")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._keep(report.nodeid, "failed", _reason(report))
        elif report.skipped:
            self._keep(report.nodeid, "skipped", _why_skipped(report))
        elif report.when == "call":
            self._keep(report.nodeid, "passed")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._keep(report.nodeid, "failed", _reason(report))
        elif report.skipped:
            self._keep(report.nodeid, "skipped", _why_skipped(report))

    def _keep(self, test: str, outcome: str, reason: str = "") -> None:
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(json.dumps({"test": test, "outcome": outcome, "reason": reason}) + "\n")


def _reason(report: Any) -> str:
    """Return what a failure says, in a line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if crash is None:  # an error of collection is the text of a traceback: its end says what it is
        lines = [line.removeprefix("E").strip() for line in lines if line.startswith("E ")] or lines[-1:]
    return lines[0] if lines else "?"


def _why_skipped(report: Any) -> str:
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}"
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ").strip().split("\n")[0]
