"""Tables as in a file: pytest-xdist tells its processes that they stand in a terminal of 80 columns."""

import pytest


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
