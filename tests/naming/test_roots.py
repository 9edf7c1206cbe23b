"""Where a search starts: whose frames and modules count as the user's."""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
import os
import signal
import sys
import textwrap
import threading
import types
import weakref
from pathlib import Path

import fresh
import pytest
import torch

import backsight
from backsight.naming import frames, roots, search

PACKAGE = Path(backsight.__file__).parent


def run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    done = fresh.run(command, torn_down=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_globals_of_the_main_script_are_named_without_a_module() -> None:
    program = """
    import torch
    from backsight.naming import search
    def main():
        print(search([delta]).names[0][0].text)
    delta = torch.ones(3)
    main()
    """
    assert run(program) == "delta"


@pytest.mark.parametrize("path", [os.__file__, json.__file__, torch.__file__, "<frozen importlib._bootstrap>"])
def test_the_standard_library_and_installed_packages_are_libraries(path: str) -> None:
    assert roots.is_library(path)


@pytest.mark.parametrize("path", [__file__, "<string>", "<stdin>", "train.py"])
def test_everything_else_is_the_users(path: str) -> None:
    assert not roots.is_library(path)


class Held:
    """What a module holds."""


def held_in() -> set[str]:
    return {name.scope for _, name in search((), collect=(Held,)).found}


def test_a_module_without_a_file_is_a_librarys_if_pytorch_has_made_it(monkeypatch) -> None:
    """As that which PyTorch makes of a text for its remote modules: it leads to all of `typing`."""
    for name, loader in (("made_by_torch", torch.utils.data.SequentialSampler([])), ("made_by_the_program", None)):
        module = types.ModuleType(name)
        module.__loader__ = loader
        module.held = Held()
        monkeypatch.setitem(sys.modules, name, module)
    del module
    assert held_in() == {"made_by_the_program"}


def test_a_namespace_package_and_what_loads_itself_are_the_programs(monkeypatch, tmp_path) -> None:
    (tmp_path / "space_of_its_own").mkdir()
    (tmp_path / "space_of_its_own" / "inner.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    inner = importlib.import_module("space_of_its_own.inner")
    del sys.modules[inner.__name__]
    monkeypatch.setitem(sys.modules, "space_of_its_own", sys.modules.pop("space_of_its_own"))  # gone at the end
    itself = types.ModuleType("loads_itself")
    itself.__loader__ = type("Loader", (), {"__module__": "loads_itself"})()
    for module in (inner, itself):
        module.held = Held()
        monkeypatch.setitem(sys.modules, module.__name__, module)
    del module, inner, itself
    assert held_in() == {"space_of_its_own.inner", "loads_itself"}


def test_a_module_of_the_program_in_the_place_of_a_librarys_is_looked_at(monkeypatch) -> None:
    assert held_in() == set()  # all modules are known now
    monkeypatch.setitem(sys.modules, "json", types.ModuleType("json"))
    monkeypatch.setitem(sys.modules, "colorsys", types.ModuleType("colorsys"))
    assert held_in() == set()  # of the standard library by their names
    monkeypatch.setitem(sys.modules, "rich", types.ModuleType("rich"))
    sys.modules["rich"].held = Held()
    assert held_in() == {"rich"}


def test_backsight_is_neither_but_its_demo_scripts_are_the_users() -> None:
    assert roots.is_ours(str(PACKAGE / "naming" / "search.py"))
    assert not roots.is_ours(str(PACKAGE / "demo" / "digits.py"))
    assert not roots.is_ours(__file__)


def test_what_only_a_library_frame_holds_is_found_last() -> None:
    """`nn.Module` keeps the positional arguments of a call in `args`."""

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> str:
            hidden = weakref.ref(x)
            del x
            return search([hidden()]).names[0][0].path

    assert Net()(torch.ones(2)) == "args[0]"


def test_a_users_name_wins_over_that_of_a_library_frame_within() -> None:
    net = torch.nn.ReLU()
    texts: list[str] = []

    def ask(module: torch.nn.Module) -> None:
        texts.extend(name.text for name in search([module]).names[0])

    net.apply(functools.partial(ask))
    function = "test_a_users_name_wins_over_that_of_a_library_frame_within"
    assert texts[:2] == ["module (local of ask)", f"net (local of {function})"]


def test_a_module_that_the_program_holds_is_not_looked_for_in_library_frames() -> None:
    net = torch.nn.ReLU()
    texts: list[str] = []

    def ask(_: torch.nn.Module) -> None:
        texts.extend(name.text for name in search([net], limit=8).names[0])

    net.apply(functools.partial(ask))
    assert texts and not any("Module.apply" in text for text in texts)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="PEP 667: f_locals is a plain read")
@pytest.mark.skipif(sys.implementation.name != "cpython", reason="the layout is CPython's")
def test_the_layout_of_an_interpreter_frame_is_as_expected() -> None:
    """When this fails, `frames._WORDS_BEFORE_GLOBALS` needs the layout of this build."""
    assert frames._LAYOUT


def test_a_module_of_an_odd_type_in_sys_modules_does_no_harm() -> None:
    sys.modules["odd_usermod"] = object()  # type: ignore[assignment]
    sys.modules["none_usermod"] = None  # type: ignore[assignment]
    try:
        assert search([torch.ones(2)], deep=True).names == ((),)
    finally:
        del sys.modules["odd_usermod"], sys.modules["none_usermod"]


def test_amid_a_comprehension_a_module_has_its_own_names_and_those_of_that() -> None:
    def look() -> None:
        frame = sys._getframe(1)
        if frames.is_function(frame):  # up to Python 3.11 a comprehension is a function
            seen.append({**frames.frame_namespace(frame.f_back), **frames.locals_of(frame)})  # type: ignore[arg-type]
        else:
            seen.append(frames.frame_namespace(frame))

    seen: list[dict[str, object]] = []
    exec("kept = 3\n[look() for each in 'a']\nafter = 4", {"look": look})
    assert (seen[0]["kept"], seen[0]["each"], seen[0]["look"]) == (3, "a", look)


def test_a_class_body_with_a_namespace_of_its_own_kind() -> None:
    class Namespace(dict):
        def __getitem__(self, key: object) -> object:
            return super().__getitem__(key)

    class Meta(type):
        @classmethod
        def __prepare__(cls, *args: object) -> Namespace:
            return Namespace()

    delta = torch.ones(2)

    class Body(metaclass=Meta):
        found = search([delta]).names[0][0].path

    assert Body.found == "delta"


class Late(Exception):
    pass


def _given(number, frame):
    raise Late


def _lets_go(number, frame):
    del frame
    raise Late


class _Handler:
    def __call__(self, number, frame):
        del frame
        raise Late

    def handle(self, number, frame):
        del frame
        raise Late


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no alarms on this system")
@pytest.mark.parametrize(
    "handler",
    [_given, _lets_go, functools.partial(_lets_go), _Handler(), _Handler().handle],
    ids=["given", "lets go", "partial", "object", "method"],
)
def test_what_a_handler_of_a_signal_raises_is_not_ours(handler):
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with pytest.raises(Late):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                while True:
                    pass
            except BaseException as failure:
                roots.ours(failure)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_what_one_thread_raises_in_another_is_not_ours(tmp_path):
    here = threading.get_ident()
    raising = ctypes.pythonapi.PyThreadState_SetAsyncExc
    guarded = """
def work(begin, ours):
    try:
        begin()
        while True: pass
    except BaseException as failure:
        return ours(failure)
"""
    scope = {}
    exec(compile(guarded, str(PACKAGE / "work.py"), "exec"), scope)
    timer = threading.Timer(0.05, lambda: raising(ctypes.c_ulong(here), ctypes.py_object(Late)))
    with pytest.raises(Late):
        scope["work"](timer.start, roots.ours)


def test_a_failure_of_ours_is_ours():
    try:
        {}["key"]
    except KeyError as failure:
        assert roots.ours(failure) is failure


def test_frames_of_pytest_are_no_place_to_start():
    found = [root for stage in roots.stages((), deep=False, here=threading.get_ident()) for root in stage]
    of_frames = {root.scope.file for root in found if root.scope.file is not None}
    assert __file__ in of_frames
    assert not [file for file in of_frames if {"_pytest", "pluggy", "xdist", "execnet"} & {*Path(file).parts}]


def test_a_library_frame_that_a_caught_error_keeps_is_no_name_of_the_users() -> None:
    scores = torch.ones(2, 3)
    with pytest.raises(ValueError, match="batch_size") as caught:
        torch.nn.functional.cross_entropy(scores, torch.zeros(5, dtype=torch.long))
    held = weakref.ref(scores)
    del scores
    assert caught.tb is not None
    assert [name for name in search([held()]).names[0] if name.scope == "cross_entropy"] == []
