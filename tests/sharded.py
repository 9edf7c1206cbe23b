"""Tests over all of PyTorch's operators, or over random programs: `make test` tries some, and `make test-all` all."""

from __future__ import annotations

import os
from typing import Any

import pytest


def shards(count: int, short: int = 1) -> list[Any]:
    """The numbers of `count` parts, for `parametrize`; all but the first `short` are long."""
    return [k if k < short else pytest.param(k, marks=pytest.mark.long) for k in range(count)]


def examples(count: int) -> int:
    """How many examples hypothesis is to try of a slow property: a quarter, or with EXAMPLES=all all of them."""
    return count if os.environ.get("EXAMPLES") == "all" else count // 4
