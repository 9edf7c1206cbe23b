"""What `backsight forecast` prints."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from backsight.memory import CannotForecast, NotAStep, forecast
from backsight.tables.text import printable

PIPED = 100
"""Columns of what is written to a file or another program."""


def forecast_step(target: str, **options: Any) -> int:
    """Print the forecast of the step that a function does or makes, `module:function` or `file.py:function`.

    `options` are those of `backsight.forecast`. Returns 1 if a device was given and the step does not fit into it, and
    2 if there is no such function, it is no step, or it raises.
    """
    from rich.console import Console

    try:
        foretold = forecast(_found(target), **options)
    except (_NotFound, CannotForecast, NotAStep) as error:
        print(f"backsight: {error}", file=sys.stderr)
        return 2
    except Exception:  # of the program; what Python itself exits with, 1, would say that the step does not fit
        traceback.print_exc()
        return 2
    if hasattr(sys.stdout, "reconfigure"):  # names may hold what the encoding of the output does not
        sys.stdout.reconfigure(errors="backslashreplace")
    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPED
    with console.capture() as held:
        console.print(foretold)
    print("\n".join(line.rstrip() for line in held.get().rstrip().split("\n")))
    return int(foretold.device_memory is not None and not foretold.fits())


class _NotFound(Exception):
    """There is no such module or function."""


def _found(target: str) -> Callable[[], Any]:
    """Return the function that a text such as `train:step` names."""
    place, _, path = target.rpartition(":")
    if not place or not path:
        raise _NotFound(f"{printable(target)} names no function. Write module:function, as in train:make_step.")
    found: Any = _module(place)
    for name in path.split("."):
        owner = found
        found = getattr(owner, name, None)
        if found is None:
            near = get_close_matches(name, dir(owner), 1)
            raise _NotFound(f"There is no {name} in {printable(place)}." + (f" Is it {near[0]}?" if near else ""))
    return found  # type: ignore[no-any-return]  # forecast says it if this is no function


def _module(place: str) -> ModuleType:
    """Import a module from the current folder or the path, or run a file as one."""
    if place.endswith(".py"):
        return _run(Path(place))
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not (place == error.name or place.startswith(f"{error.name}.")):
            raise  # the module is there, and something that it needs is not
        raise _NotFound(f"There is no module {printable(place)} here or where Python looks for modules.") from None


def _run(file: Path) -> ModuleType:
    if not file.is_file():
        raise _NotFound(f"There is no file {printable(str(file))}.")
    sys.path.insert(0, str(file.parent.resolve()))
    spec = importlib.util.spec_from_file_location(f"_forecast_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise _NotFound(f"{printable(str(file))} is no Python file.")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
