"""Where a search for names starts: the variables of frames and of modules, nearest to the caller first."""

from __future__ import annotations

import functools
import os
import signal
import site
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import CodeType, FrameType, ModuleType
from typing import Any, Literal, TypeVar

import torch

from backsight.blame import is_launcher

from .frames import frame_namespace, is_function, locals_of
from .plain import class_dict
from .plain import namespace as namespace_of

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_DEMO = _PACKAGE + "demo" + os.sep  # scripts that stand for a user's own
_MAIN = ("__main__", "__mp_main__")
_TEST_RUNNERS = frozenset(("_pytest", "pluggy", "xdist", "execnet", "__channelexec__"))
"""Packages of pytest, whose frames lead to thousands of objects, all of its own, and to what a test has anyway; the
last is what execnet calls xdist in a worker."""

LIBRARY_FRAME, FOREIGN_THREAD, IMPORTED = 1.5, 1.0, 0.5  # how much less a person would use a name from there


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a variable lives: a function (`local`), the function that defined another (`closure`), a module."""

    label: str
    kind: Literal["local", "closure", "global"]
    thread: str | None = None
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Root:
    """A namespace to start from; a higher `cost` makes its names less likely to win."""

    namespace: dict[str, object]
    scope: Scope
    cost: float = 0.0


def stages(frames: Iterable[FrameType], deep: bool, here: int) -> Iterator[list[Root]]:
    """The roots, nearest first: the given frames, the user's frames in the thread `here`, those in other threads, the
    user's modules, the frames of libraries (what called the user's code, and what that has called), and with `deep` the
    library modules. What a library calls a tensor is never what the user does: it satisfies nobody who can ask more."""
    given = [frame for frame in frames if not is_ours(frame.f_code.co_filename)]
    own, host = _running_frames(here, apart_from=given)
    yield [frame_root(frame, None) for frame in given]
    yield [frame_root(frame, thread, cost) for frame, thread, cost in own if thread is None]
    yield [frame_root(frame, thread, cost) for frame, thread, cost in own if thread is not None]
    yield [*_module_roots(library=False), *_loose_globals(frame for frame, _, _ in own)]
    yield [frame_root(frame, thread, cost) for frame, thread, cost in host]
    if deep:
        yield list(_module_roots(library=True))


_Standing = tuple[FrameType, "str | None", float]


def _running_frames(here: int, apart_from: list[FrameType]) -> tuple[list[_Standing], list[_Standing]]:
    """Every running frame but a test runner's, those of `here` and innermost first, as (the user's, the library's)."""
    names = _thread_names()
    own: list[_Standing] = []
    host: list[_Standing] = []
    for ident, stack in sorted(_stacks(), key=lambda entry: entry[0] != here):
        thread = None if ident == here else names.get(ident, str(ident))
        away = 0.0 if thread is None else FOREIGN_THREAD
        for frame in stack:
            if any(frame is other for other in apart_from) or _module_of(frame).partition(".")[0] in _TEST_RUNNERS:
                continue
            if is_user(frame):
                own.append((frame, thread, away))
            else:
                host.append((frame, thread, away + LIBRARY_FRAME))
    return own, host


def _stacks() -> list[tuple[int, list[FrameType]]]:
    """The frames of every thread from the innermost outwards, ours left out.

    No variable here may still hold our own frame at the end: that cycle would keep the whole search alive.
    """
    stacks = []
    current: dict[int, FrameType] = sys._current_frames()
    while current:
        ident, innermost = current.popitem()
        stack: list[FrameType] = []
        frame: FrameType | None = innermost
        del innermost
        while frame is not None:
            if not is_ours(frame.f_code.co_filename):
                stack.append(frame)
            frame = frame.f_back
        stacks.append((ident, stack))
    return stacks


def _thread_names() -> dict[int, str]:
    """Read past `Thread.name` and `Thread.ident`, which are properties that a subclass may override."""
    names = {}
    for thread in threading.enumerate():
        held = namespace_of(thread) or {}
        ident, name = held.get("_ident"), held.get("_name")
        if type(ident) is int and type(name) is str:
            names[ident] = name
    return names


def frame_root(frame: FrameType, thread: str | None, cost: float = 0.0) -> Root:
    code = frame.f_code
    if is_function(frame):
        scope = Scope(qualname(code), "local", thread, code.co_filename, frame.f_lineno)
        return Root(locals_of(frame), scope, cost)
    namespace = frame_namespace(frame)
    if namespace is frame.f_globals:
        return Root(namespace, Scope(_module_of(frame), "global", None, code.co_filename, frame.f_lineno), cost)
    return Root(namespace, Scope(qualname(code), "local", thread, code.co_filename, frame.f_lineno), cost)


def _module_roots(library: bool) -> Iterator[Root]:
    known = {} if library else _not_the_programs
    modules = [
        (name, module)
        for name, module in dict(sys.modules).items()
        if type(name) is str and known.get(name) != id(module)
    ]
    of_package: dict[str, bool] = {}  # there are thousands of modules, of a few hundred packages, which decide
    for name, module in sorted(modules, key=lambda entry: entry[0] not in _MAIN):
        package = name.partition(".")[0]
        decided = None if name in _MAIN else of_package.get(package)
        if decided and not library:  # past its namespace, which after a fork is not even read into memory
            _not_the_programs[name] = id(module)
            continue
        if not issubclass(type(module), ModuleType):
            continue
        namespace = module_dict(module)
        if decided is None:
            decided = _is_library_module(name, namespace)
            if name not in _MAIN and issubclass(type(sys.modules.get(package)), ModuleType):
                of_package[package] = decided
        of_ours = _is_our_module(name, namespace)
        if decided or of_ours:
            _not_the_programs[name] = id(module)
        if decided is library and not of_ours:
            yield Root(namespace, Scope(name, "global"), 0.0 if name in _MAIN else IMPORTED)


_not_the_programs: dict[str, int] = {}
"""The modules that were found to be a library's or ours, by name, with the `id`: another may be put in the place of
one. There are thousands, which every search would look at."""


def user_globals(frames: Iterable[FrameType] = ()) -> list[dict[str, object]]:
    """Return the variables of the program's modules, and those of running code, or of `frames`, that belong to none."""
    own, _ = _running_frames(threading.get_ident(), apart_from=[])
    loose = _loose_globals((*frames, *(frame for frame, _, _ in own)))
    return [root.namespace for root in (*_module_roots(library=False), *loose)]


def _loose_globals(frames: Iterable[FrameType]) -> Iterator[Root]:
    """Globals of running code that belong to no imported module: exec and runpy namespaces."""
    for frame in frames:
        yield Root(frame.f_globals, Scope(_module_of(frame), "global"))


def _module_of(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name if type(name) is str else frame.f_code.co_filename


def qualname(code: Any) -> str:
    """`train`, `Trainer.fit`, `train.<locals>.step`; the bare name on Python 3.10."""
    name: str = getattr(code, "co_qualname", code.co_name)
    return name


def module_dict(module: object) -> dict[str, object]:
    """The namespace of a module, past any `__getattribute__` of a lazy one."""
    found: dict[str, object] = _MODULE_DICT.__get__(module)
    return found


_MODULE_DICT: Any = vars(ModuleType)["__dict__"]


def is_user(frame: FrameType) -> bool:
    """True for code that is neither installed nor the standard library, and for the main script wherever it lies."""
    file = frame.f_code.co_filename
    return not is_launcher(file) and (_module_of(frame) in _MAIN or not is_library(file))


@cache
def is_ours(filename: str) -> bool:
    """True for backsight's own code, and for the script that starts it."""
    path = os.path.abspath(filename)
    return (path.startswith(_PACKAGE) and not path.startswith(_DEMO)) or is_launcher(path)


_INSTALLED = frozenset(("site-packages", "dist-packages"))
"""Folders that hold installed packages wherever they lie: other environments that were put on the path."""


Failure = TypeVar("Failure", bound=BaseException)


def ours(failure: Failure) -> Failure:
    """Return what was raised while code of ours ran, if it is ours to bear; raise it again if it is not.

    It is not where something else came in between, as may happen at any moment: an interrupt, a handler of a signal, a
    debugger that was told to quit.
    """
    if isinstance(failure, KeyboardInterrupt) or _came_between(failure):
        raise failure
    return failure


def _came_between(failure: BaseException) -> bool:
    """Whether it comes from a function that was given the frame that it interrupted, as handlers of signals are, or
    that is one now; or from nowhere, as what one thread raises in another: no code of ours raises a user's class."""
    trace, handlers = failure.__traceback__, _handlers()
    while trace is not None and trace.tb_next is not None:
        interrupted, trace = trace.tb_frame, trace.tb_next
        if trace.tb_frame.f_code in handlers:
            return True
        for given in trace.tb_frame.f_locals.values():
            if given is interrupted or (type(given) is tuple and any(each is interrupted for each in given)):
                return True
    of_program = is_user_class(type(failure).__module__)
    return trace is not None and is_ours(trace.tb_frame.f_code.co_filename) and of_program


def _handlers() -> set[CodeType]:
    """Return the code of the functions that handle signals."""
    found = set()
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        while isinstance(handler, functools.partial):
            handler = handler.func
        for each in (handler, getattr(handler, "__func__", None), vars(type(handler)).get("__call__")):
            code = getattr(each, "__code__", None)
            if type(code) is CodeType:
                found.add(code)
    return found


@cache
def is_library(filename: str) -> bool:
    """True for the standard library, for installed packages, and for what `torch.compile` has written."""
    if filename.startswith("<frozen"):
        return True
    path = os.path.abspath(filename)
    return path.startswith((*_library_folders(), *_compiled())) or not _INSTALLED.isdisjoint(path.split(os.sep))


def _compiled() -> tuple[str, ...]:
    """Return the folder in which Inductor writes code, once it has any: it puts it into the environment itself.

    Source: torch/_inductor/runtime/cache_dir_utils.py, `cache_dir`.
    """
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return (os.path.join(os.path.abspath(folder), ""),) if folder else ()


@cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages(), os.path.dirname(os.__file__)}
    folders.add(os.path.dirname(torch.__file__))  # which may come by PYTHONPATH or a .pth file
    return tuple(os.path.join(os.path.abspath(folder), "") for folder in folders)


def _is_library_module(name: str, namespace: dict[str, object]) -> bool:
    if name in _MAIN:
        return False
    package = name.partition(".")[0]
    if package in sys.stdlib_module_names or package in sys.builtin_module_names:
        return True
    top = sys.modules.get(package)  # torch.ops and the like have no honest file: their package decides
    if issubclass(type(top), ModuleType) and package != name:
        namespace = module_dict(top)
    file = namespace.get("__file__")
    return is_library(file) if type(file) is str else _is_written_by_torch(namespace)


def _is_written_by_torch(namespace: dict[str, object]) -> bool:
    """Whether a module without a file is one that PyTorch has made of a text, as for its remote modules.

    Other modules without a file are the program's: a namespace package, or what it loads in a way of its own.

    Source: torch/distributed/nn/jit/instantiator.py, `_StringLoader`.
    """
    made_by = class_dict(type(namespace.get("__loader__"))).get("__module__")
    return type(made_by) is str and made_by.partition(".")[0] == "torch"


def _is_our_module(name: str, namespace: dict[str, object]) -> bool:
    file = namespace.get("__file__")
    return name.partition(".")[0] == "backsight" and not (type(file) is str and not is_ours(file))


def is_user_class(module: object) -> bool:
    """True when a class that says it was defined in `module` is the user's."""
    if type(module) is not str:
        return False
    found = sys.modules.get(module)
    if not issubclass(type(found), ModuleType):
        return module in _MAIN
    namespace = module_dict(found)
    return not (_is_library_module(module, namespace) or _is_our_module(module, namespace))
