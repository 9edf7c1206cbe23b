"""Try backsight on a PyTorch and a Python of your choice: `make matrix TORCH=2.15.0 PYTHON=3.12`.

    python tests/matrix/matrix.py --torch 2.15.0 --python 3.12
    python tests/matrix/matrix.py --torch newest --only demo,broken    # these parts only
    python tests/matrix/matrix.py --torch 2.10.0 --rooms "tape naming" # the tests of these rooms only
    python tests/matrix/matrix.py --here                               # no environment: this Python as it is
    python tests/matrix/matrix.py --torch 2.10.0 --failed              # what failed there when it was last tried
    python tests/matrix/matrix.py --here --accept                      # write what examples/broken must give

An environment is made (by uv where there is one, else by venv and pip: several GB) and removed at the end. A line is
printed for each part, and what was found is merged into tests/matrix/results, from which `python docs/pages.py` makes
the table of docs/versions.md. Exit status: 1 if something failed, 2 if it could not be tried.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import newest
import parts
from environments import ROOT, CannotBeMade, environment, installer, python_of, surroundings
from kept import RESULTS, TESTS, Part, clean, kept, merge
from rooms import THE_ROOM, again, rooms, tested

_TORCH = re.compile(r"\d+\.\d+\.\d+")

_ABOUT = """
import json, platform, sys, warnings
from importlib.metadata import version
warnings.simplefilter("ignore")
import numpy, torch
devices = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
where = f"{platform.system()} {platform.machine()}, {', '.join(devices) or 'no device'}"
print(json.dumps({
    "versions": {"torch": torch.__version__, "python": platform.python_version(), "numpy": numpy.__version__,
                 "backsight": version("backsight")},
    "platform": where, "places": [[sys.prefix, "<venv>"], [sys.base_prefix, "<python>"]]}))
"""


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it, and so would tests
    try:
        with _python(options) as python:
            if options.accept:
                parts.accept(python, options.limit)
                print(f"written: {parts.EXPECTED.relative_to(ROOT)}")
                return 0
            return _tried(python, options)
    except CannotBeMade as why:
        print(f"matrix: {why}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("matrix: stopped; what was finished is kept", file=sys.stderr)
        return 130


def _tried(python: Path, options: argparse.Namespace) -> int:
    """Try each part, print a line for it, and keep what was found at once; return the exit status."""
    about = _about(python)
    temporary = (f"{tempfile.gettempdir()}{os.sep}", "<tmp>/")
    places = [*map(tuple, about.pop("places")), (f"{ROOT}{os.sep}", ""), (str(Path.home()), "~"), temporary]
    versions = about["versions"]
    print(f"PyTorch {versions['torch']}, Python {versions['python']}, {about['platform']}", flush=True)
    failed, file = False, None
    for name, try_it in _failed(python, options, about) if options.failed else _jobs(python, options):
        began = time.monotonic()
        part = try_it()
        part.seconds = round(time.monotonic() - began)
        part = clean(part, places)
        print(_line(name, part), flush=True)
        file = merge(about, {name: part}, options.results)
        failed |= part.failed > 0
    print(
        f"kept: {os.path.relpath(file)}; python docs/pages.py puts it into docs/versions.md" if file else "none failed"
    )
    return int(failed)


def _jobs(python: Path, options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Part]]]:
    for name in options.only:
        yield name, lambda name=name: parts.PARTS[name](python, options.limit)  # type: ignore[misc]
    for room in options.rooms:
        yield f"{TESTS}{room}", lambda room=room: tested(python, room, jobs=options.jobs, limit=options.limit)  # type: ignore[misc]


def _failed(
    python: Path, options: argparse.Namespace, about: dict[str, object]
) -> Iterator[tuple[str, Callable[[], Part]]]:
    """Yield what is to be tried of the parts that had failures: of a room that came to its end, only these tests."""
    for name, part in kept(about, options.results).items():
        room = name.removeprefix(TESTS)
        if not part.failed:
            continue
        if name in parts.PARTS:
            yield name, lambda name=name: parts.PARTS[name](python, options.limit)  # type: ignore[misc]
        elif THE_ROOM in part.failures:
            yield name, lambda room=room: tested(python, room, jobs=options.jobs, limit=options.limit)  # type: ignore[misc]
        else:
            yield name, lambda part=part: again(python, part, jobs=options.jobs, limit=options.limit)  # type: ignore[misc]


def _line(name: str, part: Part) -> str:
    failures = [f"    {test}: {reason}" for test, reason in list(part.failures.items())[:_SHOWN]]
    left_out = [f"    and {part.failed - _SHOWN} more"] if part.failed > _SHOWN else []
    counts = f"{part.passed:>6,} passed {part.failed:>4,} failed {part.skipped:>4,} skipped {part.seconds:>5,} s"
    return "\n".join([f"{name:<24}{counts}", *failures, *left_out])


_SHOWN = 8
"""Failures of a part that are printed; all of them are kept."""


@contextmanager
def _python(options: argparse.Namespace) -> Iterator[Path]:
    """Yield the Python to try: this one, or that of an environment which is made and removed."""
    if options.here:
        yield Path(sys.executable)
        return
    python = python_of(options.python)
    torch = newest.torch_for(python) if options.torch == "newest" else options.torch
    how = "uv" if installer() else "venv and pip"
    print(f"making an environment with PyTorch {torch} and {python}, by {how}", flush=True)
    with environment(torch, python, options.extra, keep=options.keep) as inside:
        yield inside


def _about(python: Path) -> dict[str, object]:
    said = subprocess.run([python, "-c", _ABOUT], capture_output=True, text=True, env=surroundings())
    if said.returncode != 0:
        last = said.stderr.strip().splitlines()[-1:] or ["it says nothing"]
        raise CannotBeMade(f"PyTorch or backsight cannot be imported there: {last[0]}")
    about: dict[str, object] = json.loads(said.stdout)
    return about


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--torch", type=_torch, metavar="VERSION", help="such as 2.15.0, or newest")
    parser.add_argument("--python", default="python3", metavar="PYTHON", help="a version, such as 3.12, or a path")
    parser.add_argument("--here", action="store_true", help="make no environment: try the one of this Python")
    parser.add_argument("--only", type=_parts, metavar="PARTS", help=f"of {', '.join(parts.PARTS)}, and no tests")
    parser.add_argument("--rooms", type=_rooms, metavar="ROOMS", help="the tests of these rooms, and no other parts")
    parser.add_argument("--failed", action="store_true", help="only what failed when it was last tried here")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count() or 2, metavar="N", help="processes of tests")
    parser.add_argument("--limit", type=_positive, default=3600, metavar="SECONDS", help="for a part, or a room")
    parser.add_argument("--with", dest="extra", action="append", default=[], metavar="REQUIREMENT", help="numpy<2.3")
    parser.add_argument("--keep", action="store_true", help="do not remove the environment")
    parser.add_argument("--accept", action="store_true", help=f"write {parts.EXPECTED.name} instead of comparing")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER", help="where to keep what is found")
    options = parser.parse_args(arguments)
    if options.torch is None and not options.here:
        parser.error("no PyTorch was given: --torch 2.15.0, --torch newest, or --here for the one of this Python")
    if options.torch is not None and options.here:
        parser.error("--here takes the PyTorch that is there: leave out --torch")
    if options.failed and (options.only is not None or options.rooms is not None):
        parser.error("--failed takes what failed: leave out --only and --rooms")
    everything = options.only is None and options.rooms is None
    options.only = list(parts.PARTS) if everything else options.only or []
    options.rooms = rooms() if everything else options.rooms or []
    return options


def _torch(text: str) -> str:
    if text != "newest" and not _TORCH.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a full version, such as 2.15.0, nor newest")
    return text


def _parts(text: str) -> list[str]:
    return _chosen(text, list(parts.PARTS), "part")


def _rooms(text: str) -> list[str]:
    return _chosen(text, rooms(), "room")


def _chosen(text: str, known: list[str], what: str) -> list[str]:
    """Read names, with commas or spaces between them."""
    names = re.split(r"[,\s]+", text.strip())
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"no {what} is named {name!r}; there are {', '.join(known)}")
    return names


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return number


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
