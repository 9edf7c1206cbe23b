"""Tests over all of PyTorch's operators or modules, in parts: `make test` runs the first ones, `make test-all` all."""

from __future__ import annotations

from typing import Any

import pytest


def shards(count: int, short: int = 1) -> list[Any]:
    """The numbers of `count` parts, for `parametrize`; all but the first `short` are long."""
    return [k if k < short else pytest.param(k, marks=pytest.mark.long) for k in range(count)]
