"""Tests over all of PyTorch's operators, random programs or many that are alike: `make test` tries some of them.

`make test-all` tries all. So does `.ci/run` with those that are alike, where what tells of them has been touched.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def shards(count: int, short: int = 1) -> list[Any]:
    """The numbers of `count` parts, for `parametrize`; all but the first `short` are long."""
    return [k if k < short else pytest.param(k, marks=pytest.mark.long) for k in range(count)]


def examples(count: int) -> int:
    """How many examples hypothesis is to try of a slow property: a quarter, or with EXAMPLES=all all of them."""
    return count if os.environ.get("EXAMPLES") == "all" else count // 4


def some(names: Iterable[str], kind: Callable[[str], object], of_each: int) -> list[Any]:
    """The names of programs, for `parametrize`; of those of one kind all but the first `of_each` are long, or with
    PROGRAMS=all none."""
    met: Counter[object] = Counter()
    found: list[Any] = []
    for name in names:
        met[kind(name)] += 1
        found.append(_long_unless_all(name) if met[kind(name)] > of_each else name)
    return found


def one_in(count: int, programs: Iterable[Any], first: int = 0) -> list[Any]:
    """Programs, for `parametrize`, of which one in `count` is tried from the one numbered `first` on; all others are
    long, or with PROGRAMS=all none."""
    return [each if k % count == first else _long_unless_all(each) for k, each in enumerate(programs)]


def _long_unless_all(program: Any) -> Any:
    values = program if isinstance(program, tuple) else (program,)
    return program if os.environ.get("PROGRAMS") == "all" else pytest.param(*values, marks=pytest.mark.long)
