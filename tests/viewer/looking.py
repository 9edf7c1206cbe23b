"""What tests of pages look at."""

from __future__ import annotations


def drawn(page):
    """Wait until nothing is being read any more, and what was read is seen."""
    page.locator("main > *").first.wait_for()
    page.locator(".busy").first.wait_for(state="detached")
    page.evaluate("new Promise((seen) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(seen))))")


def later(page, awaited):
    """Wait for what comes once the page has asked again, as it does every few seconds: its clock is put forward.

    That has to be `page.clock.install()` before the page is opened.
    """
    for _ in range(600):
        page.clock.fast_forward(3000)
        page.wait_for_timeout(50)
        if awaited.is_visible():
            return
    raise AssertionError(f"{awaited} does not come")


def shades(page, selector):
    """How many different colours a canvas shows: 1 where nothing was drawn."""
    count = """(board) => { const d = board.getContext("2d").getImageData(0, 0, board.width, board.height).data;
        const seen = new Set(); for (let k = 0; k < d.length; k += 4) seen.add((d[k] << 16) | (d[k+1] << 8) | d[k+2]);
        return seen.size }"""
    return page.locator(selector).first.evaluate(count)


def at(page):
    return page.evaluate("location.hash")


def expect(locator):
    """Playwright's assertions, which wait: what the pointer does to a page is seen a frame later."""
    from playwright.sync_api import expect

    expect.set_options(timeout=15_000)
    return expect(locator)
