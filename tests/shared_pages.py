"""Pages for tests to open in a browser, and what they complain of."""

from __future__ import annotations

from urllib.parse import urljoin

WINDOW = {"width": 1280, "height": 800}
_EMPTY = '<link rel="icon" href="data:,">'  # else a browser may ask the server for one, which has none
# Chromium starts a new process for what does not isolate itself as the page before it does.
_ISOLATED = {"cross-origin-opener-policy": "same-origin"}


class Pages:
    """Pages of a browser. What a test has opened is emptied for the next: a new page takes three new processes, which
    cost more than all that most tests do with it. A test that sets the clock of its page, which cannot be undone, takes
    one of the browser.
    """

    def __init__(self, browser):
        self._browser, self._free, self._used = browser, [], []

    def open(self, heard=(), viewport=WINDOW, color_scheme="light"):
        """Return a page that no test has now; each function of `heard` is called with what it tells, by the event."""
        page = self._free.pop() if self._free else self._browser.new_context().new_page()
        heard = dict(heard)
        self._used.append((page, heard))
        page.set_default_timeout(15_000)
        page.set_viewport_size(viewport)
        page.emulate_media(media="null", color_scheme=color_scheme)
        for event, hear in heard.items():
            page.on(event, hear)
        return page

    def put_back(self):
        for page, heard in self._used:
            for event, hear in heard.items():
                page.remove_listener(event, hear)
            if self._is_empty(page):
                self._free.append(page)
            else:
                page.context.close()
        self._used.clear()

    def _is_empty(self, page):
        """Leave nothing of a test in a page; False where that cannot be, as it was closed."""
        try:
            page.unroute_all()
            leave(page)
            page.evaluate("location.protocol === 'about:' || (localStorage.clear(), sessionStorage.clear())")
            page.context.clear_cookies()
            page.mouse.move(-1, -1)
        except Exception:
            return False
        return len(page.context.pages) == 1

    def close(self):
        for page in self._free:
            page.context.close()


def leave(page):
    """Go to an empty page of the same site, whose process can show the next one too. No server needs to be there."""
    if page.url != "about:blank":
        empty = urljoin(page.url, "/empty")
        page.route(empty, lambda route: route.fulfill(content_type="text/html", headers=_ISOLATED, body=_EMPTY))
        page.goto(empty)
        page.unroute(empty)


def complaining(complaints, may_ask):
    """Return what to hear of a page for a list of its complaints: what it says on the console, raises, shows in a
    dialog, or asks for though it may not.
    """
    return {
        "console": lambda said: complaints.append(f"{said.type}: {said.text}"),
        "pageerror": lambda error: complaints.append(str(error)),
        "dialog": lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()),
        "request": lambda asked: may_ask(asked.url) or complaints.append(f"asked for {asked.url}"),
    }
