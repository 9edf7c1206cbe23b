"""An error about a name that is not there offers what is close to it."""

from pathlib import Path

import pytest

from backsight.text.meant import beside, meant, offered


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for name in ("train.py", ".trian.py", "data.py"):
        (tmp_path / name).touch()
    return tmp_path


def test_the_names_closest_to_it_are_offered():
    assert meant("trian.py", ["data.py", "train.py"]) == "; did you mean 'train.py'?"
    assert meant("xyz", ["data.py", "train.py"]) == ""


def test_several_are_offered_as_one_would_say_them():
    assert offered(["a", "b"]) == "; did you mean 'a' or 'b'?"
    assert offered(["a", "b", "c"]) == "; did you mean 'a', 'b' or 'c'?"
    assert offered([]) == ""


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("trian.py", "; did you mean 'train.py'?"),
        ("./train", "; did you mean 'train.py'?"),
        ("rusn", "; did you mean 'runs'?"),
        ("nowhere/train.py", ""),
        ("nothing.py", ""),
        ("", ""),
    ],
)
def test_of_a_path_what_lies_there_is_offered(folder, path, said):
    assert beside(path) == said


def test_a_path_elsewhere_is_offered_as_it_is_typed(folder):
    assert beside(folder / "trian.py") == f"; did you mean '{folder / 'train.py'}'?"
    assert beside("runs/../trian.py") == "; did you mean 'runs/../train.py'?"


def test_only_what_could_be_meant_is_offered(folder):
    assert beside("runs.py", Path.is_dir) == "; did you mean 'runs'?"
    assert beside("rusn", Path.is_file) == ""
