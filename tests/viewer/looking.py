"""What tests of pages look at."""

from __future__ import annotations


def drawn(page):
    """Wait until nothing is being read any more."""
    page.locator("main > *").first.wait_for()
    page.locator(".busy").first.wait_for(state="detached")
    page.wait_for_timeout(100)


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
