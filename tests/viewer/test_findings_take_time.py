"""Findings of a long run: their progress is shown, and nobody looks for what nobody waits for."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import backsight as bs
from backsight.runs import STATISTICS, RunWriter
from backsight.viewer import Library, searching
from backsight.viewer.searching import Forgotten, Search

NOTHING = {"looked_at": "9 tensors", "findings": []}


class Slow:
    """Looks at a third of the tensors, and then waits until it is let go on."""

    def __init__(self):
        self.begun, self.go_on, self.times = threading.Event(), threading.Event(), 0

    def __call__(self, told):
        self.times += 1
        told(3, 9)
        self.begun.set()
        assert self.go_on.wait(60)
        told(9, 9)
        return NOTHING


@pytest.fixture
def slow(monkeypatch):
    slow = Slow()
    monkeypatch.setattr("backsight.viewer.answers.findings.findings_of", lambda run, told: slow(told))
    yield slow
    slow.go_on.set()


def test_whoever_has_little_patience_is_told_how_far_it_is():
    slow = Slow()
    search = Search(slow)
    assert slow.begun.wait(60)
    assert search.answer(0) == {"pending": [3, 9]}
    assert not search.ended
    slow.go_on.set()
    assert search.answer() == NOTHING


def test_what_is_raised_is_raised_where_it_was_asked_for():
    def look(told):
        raise bs.RunError("it is gone")

    search = Search(look)
    with pytest.raises(bs.RunError, match="it is gone"):
        search.answer()
    assert search.failed


def test_a_search_that_nobody_waits_for_ends(monkeypatch):
    slow = Slow()
    search = Search(slow)
    assert slow.begun.wait(60)
    monkeypatch.setattr(searching, "FORGOTTEN", -1)  # as if that time had passed
    slow.go_on.set()
    assert search._ended.wait(60)
    with pytest.raises(Forgotten):
        search.answer()


def test_whoever_comes_back_gets_the_answer_all_the_same(runs, slow, monkeypatch):
    library = Library(runs)
    assert "pending" in library.ask("first", "findings", {"patience": "0"})
    assert slow.begun.wait(60)
    monkeypatch.setattr(searching, "FORGOTTEN", -1)
    slow.go_on.set()
    assert library._searches[library.run("first")][1]._ended.wait(60)
    monkeypatch.undo()
    monkeypatch.setattr("backsight.viewer.answers.findings.findings_of", lambda run, told: slow(told))
    assert library.ask("first", "findings", {}) == NOTHING
    assert slow.times == 2


def test_a_search_goes_on_while_the_run_grows_and_begins_anew_after_it(tmp_path, slow):
    writer = RunWriter(tmp_path / "run")
    number = writer.tensor("weight", "weight", None, (2,), "float32")

    def grow(step):
        writer.append(step, [number], np.ones(1, STATISTICS))
        writer.flush()

    grow(0)
    library = Library(tmp_path)
    for step in (1, 2):
        assert "pending" in library.ask("run", "findings", {"patience": "0"})
        grow(step)
    slow.go_on.set()
    assert library.ask("run", "findings", {}) == NOTHING
    assert library.ask("run", "findings", {}) == NOTHING
    writer.close()
    assert slow.times == 2  # the first saw one step; the second all, and was not asked for again


def test_the_page_shows_the_progress(look, slow, library):
    library._searches.clear()  # another test may have looked already
    page = look("#/other/findings", busy=False)
    page.get_by_text("looked through 3 of 9 tensors, 40 steps").wait_for()
    assert page.locator("progress").evaluate("(bar) => bar.value / bar.max") == pytest.approx(1 / 3)
    slow.go_on.set()
    page.get_by_text("Nothing found").wait_for()
    library._searches.clear()
