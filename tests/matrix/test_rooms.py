"""The tests of a room are counted, whatever becomes of the process that runs them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from rooms import TOP, files_of, ran, rooms

PYTHON = Path(sys.executable)


@pytest.fixture
def run(tmp_path):
    """Run a file of tests; four seconds are more than enough for all but what hangs."""

    def run(text: str, jobs: int = 1, limit: float = 60):
        (tmp_path / "test_it.py").write_text(text)
        return ran(PYTHON, ["test_it.py"], jobs=jobs, limit=limit, within=tmp_path)

    return run


MIXED = """
import pytest

def test_good(): pass

@pytest.mark.parametrize("number", [1, 2])
def test_bad(number): assert number == 3, "not three"

@pytest.mark.skip(reason="no device")
def test_left_out(): pass

@pytest.mark.xfail(reason="one day")
def test_expected(): assert False

@pytest.fixture
def torn():
    yield
    raise OSError("while it was torn down")

def test_torn(torn): pass
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_outcomes_are_counted_with_a_reason_of_one_line(run, jobs):
    part = run(MIXED, jobs)
    assert (part.passed, part.failed, part.skipped) == (1, 3, 2)
    assert part.failures == {
        "test_it.py::test_bad[1]": "AssertionError: not three",
        "test_it.py::test_bad[2]": "AssertionError: not three",
        "test_it.py::test_torn": "OSError: while it was torn down",
    }
    assert part.skips == {"no device": 1, "expected to fail: one day": 1}


DIES = """
import os, signal

def test_good(): pass
def test_dies(): os.kill(os.getpid(), signal.SIGSEGV)
def test_after(): pass
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_room_that_crashes_is_a_line_and_what_had_passed_is_counted(run):
    part = run(DIES)
    assert (part.passed, part.failed) == (1, 1)
    assert part.failures == {"(the room)": "was killed by SIGSEGV, in test_it.py::test_dies"}


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_of_several_processes_a_crash_is_the_failure_of_one_test(run):
    part = run(DIES, jobs=2)
    assert (part.passed, part.failed) == (2, 1)
    assert "crashed" in part.failures["test_it.py::test_dies"]


@pytest.mark.slow
def test_a_room_that_hangs_is_stopped_with_all_that_it_started(run, tmp_path):
    part = run(
        "import pathlib, subprocess, sys, time\n"
        "def test_good(): pass\n"
        "def test_hangs():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "    pathlib.Path('pid').write_text(str(child.pid))\n"
        "    time.sleep(600)\n",
        limit=5,
    )
    assert (part.passed, part.failures) == (1, {"(the room)": "did not end in time, in test_it.py::test_hangs"})
    with pytest.raises(ProcessLookupError):
        _until_gone(int((tmp_path / "pid").read_text()))


def _until_gone(process: int) -> None:
    """Signal a process that was killed until nobody has it any more, or say that it lives."""
    for _ in range(100_000):
        os.kill(process, 0)
        if "Z" in Path(f"/proc/{process}/stat").read_text().split(")")[-1].split()[0]:
            raise ProcessLookupError
    raise AssertionError("it outlived the room")


def test_a_file_that_cannot_be_imported_is_a_failure_with_its_error(run):
    part = run("import nothing_of_that_name")
    assert part.failed == 1 + 1  # the file, and the room that was not run for it
    assert part.failures["test_it.py"] == "ModuleNotFoundError: No module named 'nothing_of_that_name'"


def test_a_room_in_which_no_test_is_found_has_not_passed(run):
    part = run("")
    assert (part.passed, part.failed) == (0, 1)
    assert "exit status 5" in part.failures["(the room)"]


def test_every_file_of_tests_is_in_one_room():
    from environments import ROOT

    found = [file for room in rooms() for place in files_of(room) for file in _files(ROOT / place)]
    assert sorted(found) == sorted((ROOT / "tests").rglob("test_*.py"))
    assert len(rooms()) > 20 and rooms()[-1] == TOP


def _files(place: Path) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob("test_*.py"))
