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
    """The names of programs, for `parametrize`; of those of one kind all but the first are long, or with PROGRAMS=all
    none."""
    met: Counter[object] = Counter()
    found: list[Any] = []
    for name in names:
        met[kind(name)] += 1
        is_long = met[kind(name)] > of_each and os.environ.get("PROGRAMS") != "all"
        found.append(pytest.param(name, marks=pytest.mark.long) if is_long else name)
    return found
