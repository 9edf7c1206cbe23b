"""`make matrix`: what is asked for is understood or refused, and what is expected of examples/broken is true."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import matrix
import parts
import pytest
from kept import Part, merge, results

PYTHON = Path(sys.executable)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("", "no PyTorch was given"),
        ("--here --torch 2.15.0", "leave out --torch"),
        ("--torch 2.15", "'2.15' is not a full version, such as 2.15.0, nor newest"),
        ("--torch 2.15.0 --only demo,cooking", "no part is named 'cooking'; there are import, doctor, demo"),
        ("--torch 2.15.0 --rooms attic", "no room is named 'attic'; there are"),
        ("--here --failed --rooms tape", "leave out --only and --rooms"),
        ("--torch 2.15.0 --jobs 0", "must be at least 1, not 0"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, complaint, capsys):
    with pytest.raises(SystemExit) as ended:
        matrix.main(arguments.split())
    assert ended.value.code == 2 and complaint in capsys.readouterr().err


def test_all_is_tried_unless_some_is_asked_for():
    options = matrix._options(["--here"])
    assert options.only == list(parts.PARTS) and "tape" in options.rooms
    options = matrix._options(["--here", "--only", "demo, deep"])
    assert (options.only, options.rooms) == (["demo", "deep"], [])
    options = matrix._options(["--here", "--rooms", "tape naming", "--only", "import"])
    assert (options.only, options.rooms) == (["import"], ["tape", "naming"])


def test_a_line_is_printed_for_each_part_and_all_of_it_kept(monkeypatch, tmp_path, capsys):
    failing = Part(1, 10, 0, failures={f"test {k}": f"in {Path.home()}" for k in range(10)})
    monkeypatch.setitem(parts.PARTS, "import", lambda python, limit: Part(1))
    monkeypatch.setitem(parts.PARTS, "demo", lambda python, limit: failing)
    assert matrix.main(["--here", "--only", "import,demo", "--results", str(tmp_path)]) == 1
    about, first, second, *failures, more, end = capsys.readouterr().out.splitlines()
    assert about.startswith("PyTorch 2.") and first.split()[:3] == ["import", "1", "passed"]
    assert second.split()[:5] == ["demo", "1", "passed", "10", "failed"]
    assert failures[0] == "    test 0: in ~" and more == "    and 2 more" and end.startswith("kept: ")
    (read,) = results(tmp_path)
    assert len(read.parts["demo"].failures) == 10 and read.parts["import"].passed == 1


@pytest.mark.slow
def test_what_failed_is_tried_again_and_the_rest_counts_as_it_did(monkeypatch, tmp_path, capsys):
    asked = []

    def ran(python, tests, **how):
        asked.append(tests)
        return Part(1, 1, 0, failures={tests[0]: "still"})

    monkeypatch.setattr("rooms.ran", ran)
    monkeypatch.setitem(parts.PARTS, "demo", lambda python, limit: Part(4))
    about = matrix._about(Path(sys.executable))
    two = {"tests/tape/test_a.py::test_b": "so", "tests/tape/test_a.py::test_c": "so"}
    before = {
        "demo": Part(3, 1, failures={"act 4": "not shown"}),
        "tests/tape": Part(
            10, 2, 3, failures={"tests/tape/test_a.py::test_b": "so", "tests/tape/test_a.py::test_c": "so"}
        ),
        "tests/text": Part(5, 1, failures={"(the room)": "did not end in time"}),
        "tests/naming": Part(7),
    }
    merge(about, before, tmp_path)
    assert matrix.main(["--here", "--failed", "--results", str(tmp_path)]) == 1
    assert asked == [[*two, "-m", ""], ["tests/text"]]
    (read,) = results(tmp_path)
    counts = {name: (part.passed, part.failed, part.skipped) for name, part in read.parts.items()}
    assert counts == {"demo": (4, 0, 0), "tests/tape": (11, 1, 3), "tests/text": (1, 1, 0), "tests/naming": (7, 0, 0)}

    merge(about, {name: Part(1) for name in before}, tmp_path)
    assert matrix.main(["--here", "--failed", "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("none failed\n")


def test_what_was_finished_before_an_interrupt_is_kept(monkeypatch, tmp_path):
    def interrupted(python: Path, limit: float) -> Part:
        raise KeyboardInterrupt

    monkeypatch.setitem(parts.PARTS, "import", lambda python, limit: Part(1))
    monkeypatch.setitem(parts.PARTS, "demo", interrupted)
    assert matrix.main(["--here", "--only", "import,demo", "--results", str(tmp_path)]) == 130
    assert list(results(tmp_path)[0].parts) == ["import"]


def test_every_broken_program_has_an_expectation():
    expected = json.loads(parts.EXPECTED.read_text(encoding="utf-8"))
    assert sorted(expected) == sorted(script.name for script in parts.BROKEN.glob("*.py"))
    assert all(told["findings"] for told in expected.values())


@pytest.mark.long  # the matrix itself does nothing else
@pytest.mark.parametrize("script", sorted(parts.BROKEN.glob("*.py")), ids=lambda script: script.stem)
def test_what_is_expected_of_a_broken_program_is_what_is_said(script):
    """After a change of texts: `python tests/matrix/matrix.py --here --accept`, and read the diff."""
    found, messages = parts.told(PYTHON, script, limit=240)
    assert found == json.loads(parts.EXPECTED.read_text(encoding="utf-8"))[script.name], messages


EXPECTED = {"status": 1, "findings": [{"code": "BS201", "lines": [3, 4], "fix": "Do this."}]}


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({}, ""),
        ({"findings": []}, "codes: none instead of BS201"),
        ({"findings": [{**EXPECTED["findings"][0], "lines": [3]}]}, "lines: [3] instead of [3, 4]"),
        ({"findings": [{**EXPECTED["findings"][0], "fix": "Do that."}]}, "fix: Do that. instead of Do this."),
        ({"status": 0}, "exit status 0 instead of 1"),
    ],
)
def test_a_difference_is_said_in_a_line(change, difference):
    assert parts._difference(EXPECTED, EXPECTED | change) == difference


def test_acts_of_the_demo_that_failed_are_named(monkeypatch):
    out = "1 of 4 ──\n2 of 4 ──\n3 of 4 ──\n4 of 4 ──\n"
    err = "This demo did not ...\n  act 2: ended with 0\n  act 2: found nothing\n  act 3: found nothing\n`backsight`"
    monkeypatch.setattr(parts, "run", lambda *given, **named: parts.Ended(1, out, err))
    part = parts.demo(PYTHON, 60)
    assert (part.passed, part.failed) == (2, 2)
    assert part.failures == {"act 2": "ended with 0; found nothing", "act 3": "found nothing"}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (None, "did not end in time"),
        (-11, "was killed by SIGSEGV: Segmentation fault"),
        (3, "ended with exit status 3: Segmentation fault"),
    ],
)
def test_a_part_that_does_not_end_well_says_how(monkeypatch, status, reason):
    monkeypatch.setattr(parts, "run", lambda *given, **named: parts.Ended(status, "", "...\nSegmentation fault\n"))
    assert parts.imported(PYTHON, 60).failures == {"import backsight": reason}
    assert set(parts.deep(PYTHON, 60).failures.values()) == {reason}
    assert parts.demo(PYTHON, 60).failures == {"backsight demo": reason}


def test_the_tool_needs_nothing_but_python():
    """It runs before there is an environment."""
    blocked = "import sys; sys.modules.update(dict.fromkeys(('torch', 'numpy', 'pytest', 'backsight', 'rich')))"
    program = (
        f"{blocked}; sys.path.insert(0, {str(Path(matrix.__file__).parent)!r}); import matrix; matrix.main(['-h'])"
    )
    ended = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0 and "make matrix TORCH=2.15.0" in ended.stdout, ended.stderr
