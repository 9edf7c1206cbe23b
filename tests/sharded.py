"""What of the tests `make test` runs: of the rooms that were touched nearly all, of the others a part of what is alike.

A function that is tried on more than three cases is tried on one in four, or on as many as its `one_in` says; a test
marked `slow` waits until its room is touched. A room is touched if a file of its code or of its tests differs from
origin/main, if TOUCHED names it (`TOUCHED="runs viewer"`, or `all`), or if its folder is what pytest was asked for. A
case that is the name of a touched file is tried, and so is all of a file that pytest was asked for, or of what `-k`
chooses. With TESTS=all, as in `make test-all`, everything is; what takes minutes is marked `long` besides.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]

_ALL = "all"
_FEW = 3
_USUAL = 4
_EXPLAINING = {"diagnosis", "launch", "naming", "snapshot", "source", "story", "tape", "tracing"}
"""Rooms of which any change is seen by the tests of all that explains."""


def shards(count: int, short: int = 1) -> list[Any]:
    """The numbers of `count` parts, for `parametrize`; all but the first `short` are long."""
    return [k if k < short else pytest.param(k, marks=pytest.mark.long) for k in range(count)]


def examples(count: int) -> int:
    """How many examples hypothesis is to try of a slow property: a quarter, or with TESTS=all all of them."""
    return count if os.environ.get("TESTS") == _ALL else count // 4


def left_out(config: pytest.Config, items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The tests that are not to be run, of all that were collected."""
    if os.environ.get("TESTS") == _ALL or config.getoption("keyword"):
        return []
    asked = {Path(each.partition("::")[0]).resolve() for each in config.args}
    items = [each for each in items if each.path not in asked and each.get_closest_marker("long") is None]
    files = _touched_files()
    rooms = _touched_rooms(files) | {each.name for each in asked if each.parent == ROOT / "tests"}
    cases = Counter(map(_function, items))
    met: Counter[object] = Counter()
    found = []
    for item in items:
        touched = _ALL in rooms or _room(item.path) in rooms
        if cases[_function(item)] > _FEW:
            case, mark = item.name[len(item.name.partition("[")[0]) + 1 : -1], item.get_closest_marker("one_in")
            count, form = (mark.args[0], mark.kwargs) if mark is not None else (_USUAL, {})
            count = max(1, count // _USUAL) if touched else count
            key = _function(item), form["kind"](case) if "kind" in form else ""
            is_turn = met[key] % count == form.get("first", 0) % count
            met[key] += 1
            if not is_turn and not any(f"/{case}." in f"/{file}" for file in files):
                found.append(item)
        elif not touched and item.get_closest_marker("slow") is not None:
            found.append(item)
    return found


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _room(file: Path) -> str:
    """`runs` for what lies in tests/runs or src/backsight/runs, `test_docs` for tests/test_docs.py."""
    parts = [each for each in file.relative_to(ROOT).parts if each not in ("src", "backsight", "tests")]
    return parts[0].removesuffix(".py") if parts else ""


def _touched_rooms(files: Iterable[str]) -> set[str]:
    rooms = {_room(ROOT / each) for each in files if each.startswith(("src/backsight/", "tests/"))}
    rooms |= {*os.environ.get("TOUCHED", "").split()}
    return rooms | ({"diagnosis", "failures", "fixing", "launch"} if rooms & _EXPLAINING else set())


@functools.cache
def _touched_files() -> tuple[str, ...]:
    """The files that differ from origin/main, or are not committed; none where git does not know."""

    def said(*words: str) -> list[str]:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.split("\n") if done.returncode == 0 else []

    try:
        committed = said("diff", "--name-only", "origin/main...HEAD")
        return (*filter(None, committed), *(line[3:] for line in said("status", "--porcelain", "-uall") if line))
    except OSError:  # there is no git
        return ()
