"""Results are merged part by part, name no place of the machine, and are what the range and the table are made of."""

from __future__ import annotations

import sys
from pathlib import Path

import kept
import newest
import pytest
from environments import ROOT
from kept import Part, Result, clean, merge, results

from backsight import _tested

sys.path.insert(0, str(ROOT / "docs"))

import tested

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = None

ABOUT = {"versions": {"torch": "2.15.0+cu130", "python": "3.12.1"}, "platform": "Linux"}


def result(torch: str, python: str = "3.11", **parts: Part) -> Result:
    return Result(torch, python, {}, "Linux", {name.replace("_", "/"): part for name, part in parts.items()})


def test_parts_of_another_day_stay_and_those_of_today_replace_them(tmp_path):
    merge(ABOUT, {"demo": Part(passed=4), "tests/tape": Part(passed=1)}, tmp_path)
    file = merge(ABOUT, {"tests/tape": Part(failed=1, failures={"a": "b"})}, tmp_path)
    assert file.name == "torch-2.15.0-py3.12.json"
    (read,) = results(tmp_path)
    assert (read.torch, read.python, read.versions["torch"]) == ("2.15.0", "3.12", "2.15.0+cu130")
    assert read.parts["demo"].passed == 4
    assert read.parts["tests/tape"].failures == {"a": "b"} == read.tests["tape"].failures


def test_results_are_ordered_by_number_and_not_by_letter(tmp_path):
    for torch, python in (("2.9.0", "3.11.1"), ("2.10.0", "3.9.2"), ("2.10.0", "3.13.0")):
        merge({**ABOUT, "versions": {"torch": torch, "python": python}}, {}, tmp_path)
    assert [(each.torch, each.python) for each in results(tmp_path)] == [
        ("2.10.0", "3.13"), ("2.10.0", "3.9"), ("2.9.0", "3.11"),
    ]  # fmt: skip


def test_places_of_this_machine_are_not_kept():
    part = Part(failures={"a": "in /home/me/venv/lib: <object at 0x7f00dead>"}, skips={"no /home/me/x": 2})
    cleaned = clean(part, [("/home/me/venv", "<venv>"), ("/home/me", "~")])
    assert cleaned.failures == {"a": "in <venv>/lib: <object at 0x…>"}
    assert cleaned.skips == {"no ~/x": 2}


def test_no_place_of_a_machine_is_in_what_is_kept():
    for file in kept.RESULTS.glob("*.json"):
        text = file.read_text(encoding="utf-8")
        assert not [place for place in ("/home/", "/root/", "/tmp/", "/Users/", "/work/") if place in text], file.name


WHOLE = {"import": Part(passed=1), "demo": Part(passed=4), "tests_tape": Part(passed=9)}


def test_a_release_wants_the_newest_pytorch_tried_with_a_whole_demo_and_tests():
    before = result("2.15.0", **WHOLE)
    assert newest.complaint("2.15.0", [before]) == ""
    assert "2.16.0 is the newest on the index and was never tried (tried: 2.15.0)" in newest.complaint(
        "2.16.0", [before]
    )
    for missing in ("import", "demo", "tests_tape"):
        some = {name: part for name, part in WHOLE.items() if name != missing}
        assert "no kept result of it" in newest.complaint("2.15.0", [result("2.15.0", **some)])
    assert "no kept result of it" in newest.complaint("2.15.0", [result("2.15.0", **WHOLE | {"demo": Part(3, 1)})])


def test_the_newest_is_asked_of_the_index(monkeypatch):
    said = "torch (2.9.1)\nAvailable versions: 2.9.1, 2.10.0+cpu, 2.10.0, 2.8.0\n"
    monkeypatch.setattr(newest.subprocess, "run", lambda *given, **named: _Said(said, ""))
    assert newest.torch_for(Path("python")) == "2.10.0"
    monkeypatch.setattr(newest.subprocess, "run", lambda *given, **named: _Said("", "ERROR: no network\n"))
    with pytest.raises(newest.CannotBeMade, match="does not say which PyTorch is the newest: ERROR: no network"):
        newest.torch_for(Path("python"))


class _Said:
    def __init__(self, stdout: str, stderr: str) -> None:
        self.stdout, self.stderr = stdout, stderr


def test_a_cell_says_all_or_how_many_fail_or_that_nothing_was_run():
    row = result("2.10.0", demo=Part(4), broken=Part(20, 1), tests_tape=Part(6000, 0, 7), tests_naming=Part(912, 0, 1))
    cells = ["not run", "all 4", "20, 1 fails", "not run", "all 6,912, 8 skipped"]
    assert tested._cells(row, ["naming", "tape"]) == cells
    assert tested._cells(row, ["drawing", "naming", "tape"])[-1] == "all 6,912, 8 skipped (of 2 of 3 rooms)"


def test_of_features_that_a_pytorch_lacks_the_page_says_what_people_do_without():
    row = result("2.6.0", doctor=Part(40, 0, 2, skips={"saved tensors (no x.data)": 1, "names of hooks (no y)": 1}))
    assert tested._cells(row, [])[0] == "40 of 42"
    assert (
        "): Lost: graphs do not show saved tensors, and in-place errors may be explained without the variable; "
        "a tensor that only a hook holds has no name."
    ) in tested._table([row], [])


def test_below_the_table_stands_what_fails_and_reasons_are_left_to_the_file():
    failures = {"tests/tape/test_a.py::b": "x | y", "tests/tape/test_a.py::c": "x | y", "tests/tape/test_a.py::d": "z"}
    row = result(
        "2.10.0",
        demo=Part(3, 1, failures={"act 2": "no BS201"}),
        broken=Part(19, 2, failures={"03_twice.py": "lines: 1", "04_inplace.py": "codes: 2"}),
        tests_tape=Part(1, 3, failures=failures),
        tests_naming=Part(1, 1, failures={"tests/naming/test_e.py::f": "w"}),
    )
    assert tested._table([row], ["tape"]).endswith(
        "(../tests/matrix/results/torch-2.10.0-py3.11.json): What fails of the demo: `act 2`. Explained otherwise than "
        "on PyTorch 2.13: `03_twice.py` and `04_inplace.py`. Tests that fail: 3 of `tape` and 1 of `naming`."
    )


def test_what_is_skipped_everywhere_or_for_want_of_a_machine_is_not_told():
    usual = result("2.13.0", tests_tape=Part(1, skips={"no browser": 3}))
    skips = {"no browser": 3, "no CUDA device: 2 tests": 1, "no _unpack | no hook": 2}
    table = tested._table([result("2.10.0", tests_tape=Part(1, 0, 6, skips=skips)), usual], ["tape"])
    assert table.endswith("torch-2.10.0-py3.11.json): no \\_unpack \\| no hook (2).\n\n</details>")


def test_the_range_is_the_one_in_which_the_main_job_works():
    works = {kept.numbers(each.torch)[:2] for each in results() if each.main_job}
    assert (min(works), max(works)) == (_tested.OLDEST, _tested.NEWEST)


@pytest.mark.skipif(tomllib is None, reason="needs tomllib")
def test_what_is_said_of_the_range_elsewhere_is_the_same():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = _tested.spelt(_tested.OLDEST)
    assert f"torch>={oldest}" in project["dependencies"]
    for page in ("README.md", "docs/index.md", "docs/tutorial.md", "docs/versions.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert f"PyTorch {oldest} or later" in " ".join(text.split()), page


@pytest.mark.skipif(tomllib is None, reason="needs tomllib")
def test_every_python_that_is_named_was_tried():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    prefix = "Programming Language :: Python :: 3."
    named = {each.removeprefix(prefix) for each in project["classifiers"] if each.startswith(prefix)}
    worked = {each.python.removeprefix("3.") for each in results() if each.main_job}
    assert named <= worked
    assert project["requires-python"] == f">=3.{min(map(int, named))}"
