"""The tests of a room: a folder of tests/, or `top` for those that stand in none. One pytest a room."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from environments import ROOT, surroundings
from kept import Part
from processes import run

TESTS = ROOT / "tests"
TOP = "top"
HERE = Path(__file__).parent
THE_ROOM = "(the room)"
"""What stands in the place of a test where a room did not come to its end."""


def rooms() -> list[str]:
    """Return the rooms of the tests, in the order of their names."""
    folders = {file.parent.relative_to(TESTS).parts for file in TESTS.rglob("test_*.py")}
    return [*sorted({parts[0] for parts in folders if parts}), TOP]


def files_of(room: str) -> list[str]:
    if room == TOP:
        return sorted(str(file.relative_to(ROOT)) for file in TESTS.glob("test_*.py"))
    return [f"tests/{room}"]


def tested(python: Path, room: str, *, jobs: int, limit: float) -> Part:
    """Run the tests of a room; one that crashes or hangs is a failure, and the end of this room only."""
    return ran(python, files_of(room), jobs=jobs, limit=limit)


def again(python: Path, before: Part, *, jobs: int, limit: float) -> Part:
    """Run those tests of a room that failed before, with those that `make test` leaves out by now; the others count as
    they did."""
    now = ran(python, [*before.failures, "-m", ""], jobs=jobs, limit=limit)
    now.passed += before.passed
    now.skipped += before.skipped
    now.skips = dict(Counter(before.skips) + Counter(now.skips))
    return now


def ran(python: Path, tests: Sequence[str], *, jobs: int, limit: float, within: Path = ROOT) -> Part:
    """Run tests in a process of their own for `limit` seconds at most."""
    with tempfile.TemporaryDirectory(prefix="room-") as folder:
        log = Path(folder) / "log"
        workers = ["-n", str(jobs), "--dist", "worksteal"] if jobs > 1 else []
        plugin = ["-p", "room_log", "-p", "no:cacheprovider"]
        command = [str(python), "-m", "pytest", "-q", *plugin, *workers, f"--basetemp={folder}/tmp", *tests]
        around = surroundings() | {"PYTHONPATH": str(HERE), "BACKSIGHT_ROOM_LOG": str(log)}
        ended = run(command, env=around | {"XDG_CACHE_HOME": folder}, within=within, limit=limit)
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    part = _summed([json.loads(line) for line in lines])
    last = (ended.out + ended.err).strip().splitlines()[-1:] or [""]
    if ended.status not in (0, 1):  # 1: some tests have failed, and are in the log
        unfinished = _unfinished([json.loads(line) for line in lines])
        during = f", in {unfinished}" if unfinished else f": {last[0]}" if ended.status is not None else ""
        part.failures[THE_ROOM] = f"{ended.how}{during}"
        part.failed += 1
    elif not part.passed + part.failed + part.skipped:
        part.failures[THE_ROOM] = f"no test ran: {last[0]}"
        part.failed += 1
    return part


def _summed(lines: Sequence[dict[str, str]]) -> Part:
    """Count each test once: one that fails while it is torn down has failed."""
    outcomes: dict[str, str] = {}
    part = Part()
    for line in lines:
        test, outcome = line["test"], line["outcome"]
        if outcome == "began" or outcomes.get(test) == "failed":
            continue
        outcomes[test] = outcome
        if outcome == "failed":
            part.failures[test] = line["reason"]
    skips = {line["test"]: line["reason"] for line in lines if line["outcome"] == "skipped"}
    part.skips = dict(Counter(reason for test, reason in skips.items() if outcomes[test] == "skipped"))
    counts = Counter(outcomes.values())
    part.passed, part.failed, part.skipped = counts["passed"], counts["failed"], counts["skipped"]
    return part


def _unfinished(lines: Sequence[dict[str, str]]) -> str:
    """Return the test that began last and never ended."""
    ended = {line["test"] for line in lines if line["outcome"] != "began"}
    return next((line["test"] for line in reversed(lines) if line["test"] not in ended), "")
