"""`module:function` or `file.py:function` on a command line: the object that it names."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any

from backsight.text import printable
from backsight.text.meant import beside, meant


class TargetNotFound(Exception):
    """There is no such module or function, or the file that should have it fails."""


def found(target: str, example: str, inside: ModuleType | None = None) -> Any:
    """Return what a text such as `train:step` names. `example` is one that the message shows.

    `inside` is its module, if that was imported already.

    Raises:
        TargetNotFound: if there is no such module, file or function.
    """
    place, _, path = target.rpartition(":")
    if not place or not path:
        raise TargetNotFound(f"{printable(target)} does not name a function. Write module:function, as in {example}.")
    here: Any = inside or module(place)
    for name in path.split("."):
        owner = here
        here = getattr(owner, name, None)
        if here is None:
            raise TargetNotFound(f"there is no {name} in {printable(place)}{meant(name, dir(owner)) or '.'}")
    return here


def module(place: str) -> ModuleType:
    """Import a module from the current folder or the path, or run a file as one.

    Raises:
        TargetNotFound: if there is none, or the file fails.
    """
    if place.endswith(".py"):
        return _run(Path(place))
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not (place == error.name or place.startswith(f"{error.name}.")):
            raise  # the module is there, and something that it needs is not
        near = meant(place, (each.removesuffix(".py") for each in os.listdir()))
        raise TargetNotFound(
            f"there is no module {printable(place)} here or on Python's module path{near or '.'}"
        ) from None


def _run(file: Path) -> ModuleType:
    if not file.is_file():
        raise TargetNotFound(f"there is no file {printable(str(file))}{beside(file, Path.is_file) or '.'}")
    sys.path.insert(0, str(file.parent.resolve()))
    spec = importlib.util.spec_from_file_location(f"_backsight_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise TargetNotFound(f"{printable(str(file))} is not a Python file.")
    made = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    given = sys.argv
    sys.argv = [str(file)]  # a program that reads its arguments gets none, rather than ours
    try:
        spec.loader.exec_module(made)
    except Exception as error:
        raise TargetNotFound(_failed(file, error)) from None
    finally:
        sys.argv = given
    return made


def _failed(file: Path, error: Exception) -> str:
    """Say where a file failed while it was imported, and what keeps its training from being run then."""
    lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == os.path.abspath(file)]
    line = lines[-1] if lines else getattr(error, "lineno", None)  # a SyntaxError of its own knows its line
    where = f", at line {line}" if line else ""
    what = printable(f"{type(error).__name__}: {error}".partition("\n")[0]).rstrip(".")
    guard = "" if isinstance(error, ImportError | SyntaxError) else _GUARD
    return f"{printable(str(file))} failed while it was imported{where}: {what}.{guard}"


_GUARD = ' Put the training under `if __name__ == "__main__":`.'
