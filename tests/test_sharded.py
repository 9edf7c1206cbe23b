"""What `make test` leaves out, of a folder of tests that is made for it."""

from __future__ import annotations

from collections import Counter

import pytest
import sharded

TESTS = """
import pytest

@pytest.mark.parametrize("case", range(8))
def test_alike(case): pass

@pytest.mark.parametrize("case", range(3))
def test_few(case): pass

@pytest.mark.one_in(8, first=1)
@pytest.mark.parametrize("case", range(16))
def test_rarely(case): pass

@pytest.mark.one_in(8, kind=lambda case: case[0])
@pytest.mark.parametrize("case", ["a1", "a2", "b1", "b2", "c1", "c2"])
def test_of_kinds(case): pass

@pytest.mark.slow
def test_that_takes_long(): pass

@pytest.mark.parametrize("case", [f"some/case{number}" for number in range(8)])
def test_of_files(case): pass
"""

SAMPLE = {"alike": 2, "few": 3, "rarely": 2, "of_kinds": 3, "of_files": 2}
NEARLY_ALL = {"alike": 8, "few": 3, "rarely": 8, "of_kinds": 3, "that_takes_long": 1, "of_files": 8}
ALL = {"alike": 8, "few": 3, "rarely": 16, "of_kinds": 6, "that_takes_long": 1, "of_files": 8}


class Collected:
    """A plugin that leaves out what `make test` does, and keeps the names of the others."""

    def __init__(self):
        self.names = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config, items):
        out = sharded.left_out(config, items)
        self.names = [each.name.partition("[")[0].removeprefix("test_") for each in items if each not in out]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Return a function that returns how many cases of each test are run, in a folder of which git knows nothing."""
    for name in ("TESTS", "TOUCHED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sharded, "ROOT", tmp_path)
    touched(monkeypatch)
    (tmp_path / "tests" / "runs").mkdir(parents=True)
    (tmp_path / "tests" / "runs" / "test_made_for_it.py").write_text(TESTS)
    markers = "\n ".join(("markers =", "slow", "long", "one_in"))
    (tmp_path / "pytest.ini").write_text(f"[pytest]\ntestpaths = tests\n{markers}\n")
    monkeypatch.chdir(tmp_path)

    def run(*words):
        collected = Collected()
        without = [word for name in ("xdist", "cacheprovider", "backsight") for word in ("-p", f"no:{name}")]
        pytest.main(
            [*words, *without, "--collect-only", "--import-mode=importlib", "-q", "--rootdir", str(tmp_path)],
            plugins=[collected],
        )
        return dict(Counter(collected.names))

    return run


def touched(monkeypatch, *files):
    monkeypatch.setattr(sharded, "_touched_files", lambda: files)


def test_of_a_room_that_nobody_touched_a_part_is_run(kept, monkeypatch):
    assert kept() == SAMPLE
    touched(monkeypatch, "src/backsight/viewer/pages.py", "docs/runs.md", "README.md")
    assert kept() == SAMPLE


def test_of_a_room_that_was_touched_nearly_all_is_run(kept, monkeypatch):
    assert kept("tests/runs") == NEARLY_ALL
    touched(monkeypatch, "src/backsight/runs/rank.py")
    assert kept() == NEARLY_ALL
    touched(monkeypatch)
    monkeypatch.setenv("TOUCHED", "viewer runs")
    assert kept() == NEARLY_ALL


def test_a_case_that_is_a_touched_file_is_run(kept, monkeypatch):
    touched(monkeypatch, "examples/some/case3.py")
    assert kept()["of_files"] == 3


def test_all_is_run_of_what_was_asked_for_by_name_and_with_tests_all(kept, monkeypatch):
    assert kept("tests/runs/test_made_for_it.py") == ALL
    assert kept("tests/runs/test_made_for_it.py::test_alike") == {"alike": 8}
    monkeypatch.setenv("TESTS", "all")
    assert kept() == ALL


def test_all_that_explains_is_touched_with_what_it_reads(monkeypatch):
    monkeypatch.delenv("TOUCHED", raising=False)
    assert {"diagnosis", "failures", "launch", "source"} <= sharded._touched_rooms(["src/backsight/source/edits.py"])
    files = ["src/backsight/cli.py", "tests/test_docs.py", "docs/memory.md", "Makefile"]
    assert sharded._touched_rooms(files) == {"cli", "test_docs"}
