"""A folder of runs, made once, and the viewer over it."""

from __future__ import annotations

import pytest
from recorded_runs import digits, hostile

from backsight.viewer import Library, Server


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A folder with a training, the same again, another, one that fails, one of a single step, and a hostile one."""
    folder = tmp_path_factory.mktemp("runs")
    digits(folder / "first", 60)
    digits(folder / "again", 40)
    digits(folder / "other", 40, seed=1)
    digits(folder / "broken", 50, nan_at=30)
    digits(folder / "short", 1)
    hostile(folder / "hostile")
    return folder


@pytest.fixture(scope="session")
def library(runs):
    return Library(runs)


@pytest.fixture(scope="session")
def server(library):
    pytest.importorskip("uvicorn", reason='THE VIEWER IS NOT TESTED: pip install "backsight[view]"')
    with Server(library) as server:
        yield server
