"""Explanations have the time that they need: what is said must not depend on how fast, or how busy, a machine is."""

import pytest

from backsight.verification.hypotheses import sizes
from backsight.verification.steps import search


@pytest.fixture(autouse=True)
def plenty_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for searching in (search, sizes):
        monkeypatch.setattr(searching, "SECONDS", 120.0)
