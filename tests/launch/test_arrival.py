"""Being told that a module has been imported."""

import sys

import pytest

from backsight.launch.arrival import when_imported


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """The name of a module that nobody has imported."""
    (tmp_path / "a_fresh_module.py").write_text("value = 3")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    yield "a_fresh_module"
    sys.modules.pop("a_fresh_module", None)
    assert sys.meta_path == finders


@pytest.mark.parametrize("observers", [1, 2, 3])
def test_each_observer_is_told_once_and_the_module_has_its_own_loader(fresh, observers):
    told = []
    for number in range(observers):
        when_imported(fresh, lambda number=number: told.append(number))
    module = __import__(fresh)
    assert sorted(told) == list(range(observers))
    assert module.value == 3
    assert type(module.__loader__).__name__ == type(module.__spec__.loader).__name__ == "SourceFileLoader"


def test_who_has_it_already_is_told_at_once(fresh):
    __import__(fresh)
    told = []
    when_imported(fresh, lambda: told.append(1))
    assert told == [1]


class AsksAll:
    """An import hook that stands there already and asks all finders but itself, as some that patch modules do."""

    @classmethod
    def find_spec(cls, name, path, target=None):
        found = (each.find_spec(name, path, target) for each in sys.meta_path if each is not cls)
        return next((spec for spec in found if spec is not None), None)


@pytest.mark.parametrize("observers", [1, 2])
def test_an_import_hook_that_asks_all_finders_gets_an_answer(fresh, monkeypatch, observers):
    finders = list(sys.meta_path)
    sys.meta_path.insert(0, AsksAll)
    try:
        told = []
        for number in range(observers):
            when_imported(fresh, lambda number=number: told.append(number))
        assert __import__(fresh).value == 3
        assert sorted(told) == list(range(observers))
    finally:
        sys.meta_path[:] = finders


def test_a_room_of_ours_that_imports_it_has_run_before_anyone_is_told(fresh, tmp_path, monkeypatch):
    (tmp_path / "a_room.py").write_text(f"import {fresh}\nready = True")
    monkeypatch.setattr("backsight.__path__", [str(tmp_path)])
    told = []
    when_imported(fresh, lambda: told.append(sys.modules["backsight.a_room"].ready))
    try:
        assert __import__("backsight.a_room").a_room.ready
    finally:
        sys.modules.pop("backsight.a_room", None)
        vars(sys.modules["backsight"]).pop("a_room", None)
    assert told == [True]


def test_a_room_that_fails_before_it_imports_it_does_not_keep_anyone_waiting(fresh, tmp_path, monkeypatch):
    (tmp_path / "a_room.py").write_text("raise ImportError")
    monkeypatch.setattr("backsight.__path__", [str(tmp_path)])
    told = []
    when_imported(fresh, lambda: told.append(1))
    with pytest.raises(ImportError):
        __import__("backsight.a_room")
    assert __import__(fresh).value == 3
    assert told == [1]
