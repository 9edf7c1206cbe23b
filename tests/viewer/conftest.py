"""A folder of runs, made once, and the viewer over it."""

from __future__ import annotations

import pytest
from looking import drawn
from recorded_runs import digits, hostile
from shared_pages import complaining, leave

from backsight.viewer import Library, Server


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A folder with a training, the same again, another, one that fails, one of a single step, and a hostile one."""
    folder = tmp_path_factory.mktemp("runs")
    digits(folder / "first", 60, measure_at=10)
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


@pytest.fixture
def look(pages, server):
    """Return a function that opens a view and waits until it is drawn; no page may complain or ask elsewhere.

    Its `each` opens several in one page, its `refused` passes over what was refused.
    """
    complaints = []

    def look(view="", busy=True, server=server, **options):
        here = f"http://127.0.0.1:{server.port}/"
        page = pages.open(complaining(complaints, lambda url: url.startswith((here, "data:"))), **options)
        page.goto(server.url + view)
        if busy:
            drawn(page)
        return page

    def each(*views, **options):
        """Open several views in one page, one after the other, each as if it were the first."""
        page = look(views[0], **options)
        yield page
        for view in views[1:]:
            leave(page)
            page.goto(f"http://127.0.0.1:{server.port}/{view}")
            drawn(page)
            yield page

    def refused():
        """Pass over what the browser says of each answer that is an error."""
        assert all("Failed to load resource" in said for said in complaints)
        complaints.clear()

    look.complaints, look.each, look.refused = complaints, each, refused
    yield look
    assert complaints == []
