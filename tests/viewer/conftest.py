"""A folder of runs, made once, and the viewer over it."""

from __future__ import annotations

import pytest
from looking import drawn
from recorded_runs import digits, hostile

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


class Pages:
    """Pages of a browser, by how they were made. What a test has opened is emptied for the next: a new one costs more
    than all that most tests do with it.
    """

    def __init__(self, browser):
        self._browser, self._kept, self._used = browser, {}, []

    def open(self, heard, **options):
        """Return a page that no test has now; `heard` is called with what it tells, by the event."""
        how = repr(sorted(options.items()))
        page = self._kept.pop(how, None) or self._browser.new_context(**options).new_page()
        self._used.append((how, page, heard))
        page.set_default_timeout(15_000)
        for event, hear in heard.items():
            page.on(event, hear)
        return page

    def put_back(self):
        for how, page, heard in self._used:
            for event, hear in heard.items():
                page.remove_listener(event, hear)
            if how not in self._kept and self._is_empty(page):
                self._kept[how] = page
            else:
                page.context.close()
        self._used.clear()

    def _is_empty(self, page):
        """Leave nothing of a test in a page; False where that cannot be, as it was closed."""
        try:
            page.unroute_all()
            page.evaluate("location.protocol === 'about:' || (localStorage.clear(), sessionStorage.clear())")
            page.context.clear_cookies()
            page.mouse.move(-1, -1)
            page.goto("about:blank")
        except Exception:
            return False
        return len(page.context.pages) == 1

    def close(self):
        for page in self._kept.values():
            page.context.close()


@pytest.fixture(scope="module")
def pages(browser):
    pages = Pages(browser)
    yield pages
    pages.close()


@pytest.fixture
def look(pages, server):
    """Return a function that opens a view and waits until it is drawn; no page may complain or ask elsewhere."""
    complaints = []
    here = f"http://127.0.0.1:{server.port}/"
    heard = {
        "console": lambda said: complaints.append(f"{said.type}: {said.text}"),
        "pageerror": lambda error: complaints.append(str(error)),
        "dialog": lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()),
        "request": lambda asked: asked.url.startswith((here, "data:")) or complaints.append(asked.url),
    }

    def look(view="", busy=True, **options):
        page = pages.open(heard, **{"viewport": {"width": 1280, "height": 800}, **options})
        page.goto(server.url + view)
        if busy:
            drawn(page)
        return page

    def each(*views, **options):
        """Open several views in one page, one after the other, each as if it were the first."""
        page = look(views[0], **options)
        yield page
        for view in views[1:]:
            page.goto("about:blank")
            page.goto(here + view)
            drawn(page)
            yield page

    look.complaints, look.each = complaints, each
    yield look
    pages.put_back()
    assert complaints == []
