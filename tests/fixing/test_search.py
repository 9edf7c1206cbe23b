"""Which change is found, for programs whose runs are made up: what each text leads to is told beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from backsight.fixing.search import Search, Tried
from backsight.fixing.trial import Fault, Outcome
from backsight.source.edits import Edit, lines_of, write


class Program:
    """A file of one line, and what comes of running it with this line or that."""

    def __init__(self, folder: Path, **outcomes: Outcome) -> None:
        self.file = folder / "train.py"
        self.file.write_text("start\n", encoding="utf-8")
        self.outcomes = outcomes
        self.ran: list[str] = []

    def fault(self, title: str, *lines: str, explains: bool = True, severity: str = "error") -> Fault:
        edits = tuple((self.writing(line),) for line in lines)
        return Fault("BS201", severity, title, "train.py:1", "start", "Write it so.", edits, explains)

    def writing(self, line: str) -> Edit:
        return write(lines_of(str(self.file), 1), line)

    def run(self, texts: Mapping[str, str]) -> Outcome:
        line = texts[str(self.file)].strip()
        self.ran.append(line)
        return self.outcomes[line]

    def search(self, most: int = 12) -> Search:
        return Search(self.run, most, lambda tried, ended: None)

    def searched(self, start: Outcome, most: int = 12) -> Tried | None:
        return self.search(most).from_(start)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def ended(*faults: Fault, status: int | None = 0, moved: str = "", still: str = "") -> Outcome:
    """How a program ends whose first optimizer moves some of the parameters a, b, c, and does not move others."""
    held = frozenset((0, ord(each)) for each in moved)
    ended = 1 if any(each.explains for each in faults) else status
    return Outcome(ended, faults, 3, "", 1.0, moved=held, still={(0, ord(each)): each for each in still})


def line_of(found: Tried | None) -> str:
    assert found is not None
    (text,) = found.texts.values()
    return text.strip()


def test_the_first_alternative_that_works_is_taken(program: Program) -> None:
    start = ended(program.fault("x", "bad", "good", "better"))
    program.outcomes = {"bad": ended(program.fault("x")), "good": ended(), "better": ended(program.fault("x"))}
    assert line_of(program.searched(start)) == "good"
    assert program.ran == ["bad", "good", "better"]


def test_what_else_works_is_told_in_the_order_of_the_fix_what_trains_less_last(program: Program) -> None:
    start = ended(program.fault("x", "few", "bad", "many", "also", "more than enough"))
    program.outcomes = {"few": ended(moved="a", still="bc"), "bad": ended(program.fault("x"))}
    program.outcomes |= {"many": ended(moved="abc"), "also": ended(moved="abc")}
    search = program.search()
    assert line_of(search.from_(start)) == "many"
    assert [*map(line_of, search.ways)] == ["many", "also", "few"]
    assert "more than enough" not in program.ran


def test_a_change_that_was_not_needed_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("a = 1\nb = 1\nc = 1\n", encoding="utf-8")
    last = write(lines_of(str(file), 3), "c = 2")
    other = Fault("BS201", "error", "y", "train.py:3", "c = 1", "", ((last,),), True)
    edits = (write(lines_of(str(file), 1), "a = 2"),)
    ran = list[str]()

    def run(texts: Mapping[str, str]) -> Outcome:
        ran.append(texts[str(file)])
        return ended() if "c = 2" in ran[-1] else ended(other)

    start = ended(Fault("BS201", "error", "x", "train.py:1", "a = 1", "", (edits,), True))
    found = Search(run, 12, lambda tried, ended: None).from_(start)
    assert found is not None and found.texts == {str(file): "a = 1\nb = 1\nc = 2\n"} and len(ran) == 3
    assert [each.edits for each in found.chain] == [(last,)]
    needed = Search(lambda texts: run(texts) if "a = 2" in texts[str(file)] else start, 12, lambda tried, ended: None)
    found = needed.from_(start)
    assert found is not None and found.texts == {str(file): "a = 2\nb = 1\nc = 2\n"}
    assert [each.edits for each in found.chain] == [edits, (last,)]


def test_the_next_error_is_mended_as_well(program: Program) -> None:
    start = ended(program.fault("x", "half"))
    program.outcomes = {"half": ended(program.fault("y", "wrong", "whole")), "whole": ended()}
    program.outcomes["wrong"] = ended(program.fault("y"))
    assert line_of(program.searched(start)) == "whole"


def test_an_error_that_comes_again_further_down_is_another(program: Program) -> None:
    first = program.fault("x", "half")
    second = Fault("BS201", "error", "x", "train.py:1", "half", "", ((program.writing("whole"),),), True)
    program.outcomes = {"half": ended(second), "whole": ended()}
    assert line_of(program.searched(ended(first))) == "whole"


def test_a_change_after_which_something_is_found_is_taken_only_if_there_is_no_better_one(program: Program) -> None:
    silent = program.fault("nothing trains", explains=False, severity="warning")
    start = ended(program.fault("x", "idle", "good"))
    program.outcomes = {"idle": ended(silent), "good": ended()}
    assert line_of(program.searched(start)) == "good"
    program.outcomes["good"] = ended(program.fault("x"))
    found = program.searched(start)
    assert line_of(found) == "idle" and found is not None and not found.is_clean


def test_a_warning_that_is_explained_is_not_what_ended_the_run(program: Program) -> None:
    warned = program.fault("a warning", "quiet", severity="note")
    program.outcomes = {"good": ended(warned, status=0)}
    start = Outcome(1, (warned, program.fault("x", "good")), None, "", 1.0)
    program.outcomes["good"] = Outcome(0, (warned,), 3, "", 1.0)
    assert line_of(program.searched(start)) == "good"


def test_a_change_that_breaks_a_program_is_none(program: Program) -> None:
    silent = program.fault("nothing trains", "broken", explains=False)
    program.outcomes = {"broken": ended(status=1)}
    assert program.searched(ended(silent)) is None


def test_a_change_that_mends_a_silent_fault_and_brings_another_is_none(program: Program) -> None:
    silent = program.fault("nothing trains", "other", explains=False)
    program.outcomes = {"other": ended(program.fault("half trains", explains=False))}
    assert program.searched(ended(silent)) is None


def test_a_program_that_still_runs_when_its_time_is_over_works(program: Program) -> None:
    program.outcomes = {"good": ended(status=None)}
    found = program.searched(ended(program.fault("x", "good")))
    assert found is not None and found.is_clean


def test_no_text_is_run_twice_and_never_more_than_wanted(program: Program) -> None:
    x, y = program.fault("x", "b", "c"), program.fault("y", "a", "b")
    program.outcomes = {"b": ended(y), "a": ended(x), "c": ended(y)}
    assert program.searched(ended(program.fault("y", "b"))) is None
    assert program.ran == ["b"]
    program.ran.clear()
    found = program.searched(ended(x))
    assert found is not None and found.outcome.failed
    assert sorted(program.ran) == ["a", "b", "c"]
    program.ran.clear()
    program.searched(ended(x), most=2)
    assert len(program.ran) == 2


def test_an_edit_that_does_not_fit_or_is_of_a_library_is_not_run(program: Program) -> None:
    import torch

    wrong = program.fault("x", "f(")
    theirs = Fault("BS201", "error", "x", "", "", "", ((write(lines_of(torch.__file__, 1), "pass"),),), True)
    assert program.searched(ended(wrong)) is None
    assert program.searched(ended(theirs)) is None
    assert program.ran == []


def test_what_is_found_beside_the_error_is_told_and_not_mended(program: Program) -> None:
    beside = replace(
        program.fault("one part is detached", "attached", explains=False, severity="warning"), code="BS102"
    )
    program.outcomes = {"good": ended(beside)}
    found = program.searched(ended(program.fault("x", "good")))
    assert line_of(found) == "good" and found is not None and found.does and program.ran == ["good"]
    program.outcomes = {"good": ended(beside, moved="a", still="b"), "attached": ended(moved="ab")}
    found = program.searched(ended(program.fault("x", "good")))
    assert line_of(found) == "attached"


def test_a_change_that_stops_what_was_trained_is_none(program: Program) -> None:
    start = ended(program.fault("x", "cut", "good"), moved="ab")
    program.outcomes = {"cut": ended(moved="a", still="b"), "good": ended(moved="ab")}
    search = program.search()
    assert line_of(search.from_(start)) == "good"
    assert [*map(line_of, search.ways)] == ["good"]


def test_a_change_with_which_an_optimizer_trains_nothing_is_none(program: Program) -> None:
    start = ended(program.fault("x", "idle", "detached"))
    detached = replace(program.fault("detached", explains=False, severity="warning"), code="BS115")
    program.outcomes = {"idle": ended(still="ab"), "detached": ended(detached, moved="a", still="b")}
    assert program.searched(start) is None and program.ran == ["idle", "detached"]


def test_all_that_a_fix_offers_is_tried_by_itself_before_anything_is_stacked_on_it(program: Program) -> None:
    start = ended(program.fault("x", "half", "other_half", "good"))
    program.outcomes = {"half": ended(program.fault("y", "stacked")), "other_half": ended(program.fault("z"))}
    program.outcomes |= {"good": ended()}
    assert line_of(program.searched(start)) == "good"
    assert program.ran == ["half", "other_half", "good"]


def test_a_stacked_change_that_makes_the_loss_constant_is_none(program: Program) -> None:
    constant = replace(program.fault("always 1", explains=False, severity="warning"), code="BS151")
    program.outcomes = {"half": ended(program.fault("y", "moved")), "moved": ended(constant, moved="a")}
    found = program.searched(ended(program.fault("x", "half")))
    assert line_of(found) == "half" and found is not None and not found.does


def test_a_change_that_leaves_a_value_unused_comes_after_those_that_do_not(program: Program) -> None:
    start = ended(program.fault("x", "kept = start", "start"), moved="a")
    program.file.write_text("begin\n", encoding="utf-8")
    program.outcomes = {"kept = start": ended(moved="a"), "start": ended(moved="a")}
    search = program.search()
    assert line_of(search.from_(start)) == "start"
    assert [way.unread for way in search.ways] == [(), ("kept",)]
