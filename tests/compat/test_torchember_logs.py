"""`emberTracker`: dicts in, tables out, and files that survive what happens to files."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from backsight.compat.torchember import emberTracker
from backsight.runs import RunWarning

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def track() -> emberTracker:
    return emberTracker("testmodel")


def test_adding_returns_the_tracker(track: emberTracker) -> None:
    assert track + {"a": 1} + {"a": 2} is track
    assert track({"a": 3}) is track
    assert track.df["a"].tolist() == [1, 2, 3]


def test_a_log_of_the_same_name_is_continued(track: emberTracker) -> None:
    track + {"a": 1}
    again = emberTracker("testmodel")
    again + {"a": 2}
    assert track.lines() == again.lines() == [{"a": 1}, {"a": 2}]


def test_files_are_made_when_something_is_written(track: emberTracker, home: Path) -> None:
    assert track.df.empty
    assert track.latest_df.empty
    assert list(home.iterdir()) == []
    track + {"a": 1}
    assert track.log_path == home / ".torchember" / "log" / "testmodel"
    track.log_path.unlink()
    assert track.lines() == []


def test_numbers_of_pytorch_and_numpy_become_plain(track: emberTracker) -> None:
    track + {"loss": torch.tensor(0.5, requires_grad=True), "rows": np.arange(3), "n": np.int64(2), "deep": {"a": [1]}}
    assert track.lines() == [{"loss": 0.5, "rows": [0, 1, 2], "n": 2, "deep": {"a": [1]}}]


@pytest.mark.parametrize(
    ("added", "message"),
    [(3, "a dict is needed, and this is of type int"), ({"a": object()}, "and this is of type object")],
)
def test_what_a_log_cannot_hold_is_refused(track: emberTracker, added: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        track + added
    with pytest.raises(TypeError, match=message):
        track["name"] = added
    assert track.lines() == []


def test_latest_is_what_was_refreshed_last(track: emberTracker) -> None:
    track + {"a": 1}
    assert track.latest_df["a"].tolist() == [1]
    track.refresh()
    track + {"a": 2}
    assert track.latest_df["a"].tolist() == [1]
    track + {"a": 3}
    track.refresh()
    assert track.latest_df["a"].tolist() == [2, 3]
    assert emberTracker("testmodel").latest_df["a"].tolist() == [2, 3]


def test_dicts_by_name(track: emberTracker, home: Path) -> None:
    track["about"] = {"property": False}
    track["about"] = {"property": True}
    assert track["about"] == {"property": True}
    assert [path.name for path in (home / ".torchember" / "data").iterdir()] == ["about.json"]
    with pytest.raises(KeyError, match="nothing"):
        track["nothing"]


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "a\0b"])
def test_names_stay_in_their_folder(track: emberTracker, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a file"):
        emberTracker(name)
    with pytest.raises(ValueError, match="cannot be the name of a file"):
        track[name] = {}


def test_a_copy_of_a_tracker_is_of_the_same_log(track: emberTracker) -> None:
    track + {"a": 1}
    assert pickle.loads(pickle.dumps(track)).lines() == copy.deepcopy(track).lines() == [{"a": 1}]


def test_marks_do_not_hide_what_a_row_says(track: emberTracker) -> None:
    track.mark(a="mark", epoch=torch.tensor(2))
    track + {"a": 1}
    assert track.lines() == [{"a": 1, "epoch": 2}]


def test_a_line_torn_by_a_kill_is_skipped_and_counted(track: emberTracker) -> None:
    track + {"a": 1}
    with open(track.log_path, "a") as log:
        log.write('{"a": 2, "b"')
    after = emberTracker("testmodel")
    after + {"a": 3}
    with pytest.warns(RunWarning, match="1 lines of .*testmodel are damaged and were skipped"):
        assert after.lines() == [{"a": 1}, {"a": 3}]


def test_without_pandas_tables_say_what_to_do(track: emberTracker, monkeypatch: pytest.MonkeyPatch) -> None:
    track + {"a": 1}
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"df needs pandas, which is not installed: pip install 'backsight\[runs\]'"):
        track.df
    with pytest.raises(ImportError, match=r"latest_line_list\(\) returns the same rows as dicts"):
        track.latest_df
    assert track.lines() == [{"a": 1}]
