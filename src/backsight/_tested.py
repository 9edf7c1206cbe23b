"""The range of PyTorch that backsight was seen to work on, by tests/matrix/results: a test holds it to them."""

from __future__ import annotations

import re

OLDEST = (2, 6)
NEWEST = (2, 15)


def newer_than_tested(version: str) -> bool:
    """Return whether a version of PyTorch is newer than all that were tested: `2.99.0a0+git1234` is, `2.13.1` is not.

    Of a version that cannot be read nothing is known, and nothing said.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) > NEWEST


def spelt(version: tuple[int, int]) -> str:
    """Return (2, 13) as 2.13."""
    return ".".join(map(str, version))
