"""The pages as a site: it is built without a warning, and nothing in it is fetched from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("mkdocstrings", reason="THE SITE IS NOT TESTED: pip install '.[docs]'")

ROOT = Path(__file__).parent.parent

_FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "use": "href"}
_TAGS = re.compile(rf"<(?:{'|'.join(_FETCHED)})\b[^>]*>", re.IGNORECASE)
_FOREIGN = re.compile(r"(?:https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    return folder


class Fetched(HTMLParser):
    """Collects what a browser fetches by itself for a page."""

    def __init__(self, page: Path):
        super().__init__()
        self.addresses: list[str] = []
        for tag in _TAGS.findall(page.read_text(encoding="utf-8")):  # all else of the pages takes seconds to parse
            self.feed(tag)
            self.reset()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        address = given.get(_FETCHED.get(tag, ""))
        if address is not None and given.get("rel") not in ("canonical", "prev", "next"):
            self.addresses.append(address)


def addresses(site: Path) -> Iterator[tuple[str, str]]:
    for page in site.rglob("*.html"):
        yield from ((page.name, address) for address in Fetched(page).addresses)
    for sheet in site.rglob("*.css"):
        found = re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')\s]+)", sheet.read_text(encoding="utf-8"))
        yield from ((sheet.name, address) for address in found)


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    asked = list(addresses(site))
    assert len(asked) > 100
    assert [each for each in asked if _FOREIGN.match(each[1])] == []


def test_every_page_is_in_the_site_and_every_title_in_its_navigation(site: Path) -> None:
    pages = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if not (site / page.with_suffix(".html")).exists()] == []
    front = (site / "index.html").read_text(encoding="utf-8")
    assert [page for page in pages if page.stem != "index" and f'href="{page.with_suffix(".html")}"' not in front] == []


def test_programs_that_pages_link_to_are_shown(site: Path) -> None:
    assert "A tour of autograd" in (site / "source/examples/autograd_tour.ipynb.html").read_text(encoding="utf-8")
    assert 'href="source/docs/pictures.py.html"' in (site / "drawing.html").read_text(encoding="utf-8")


def test_the_reference_tells_of_every_public_name(site: Path) -> None:
    import backsight

    headings = "".join(page.read_text(encoding="utf-8") for page in (site / "api").glob("*.html"))
    told = set(re.findall(r'<h2 id="[\w.]*?(\w+)" class="doc doc-heading">', headings))
    assert sorted(set(backsight.__all__) - told) == ["__version__", "testing"]


@pytest.mark.parametrize("page", ["index", "graph", "api/graph", "codes/index", "performance"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_asks_for_nothing_else_and_scrolls_one_way(site: Path, pages, page: str, width: int) -> None:
    asked: list[str] = []
    heard = {"request": lambda request: asked.append(request.url)}
    shown = pages.open(heard, viewport={"width": width, "height": 800})
    shown.goto((site / f"{page}.html").as_uri())
    sideways = shown.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert [url for url in asked if not url.startswith("file:")] == []
    assert sideways <= 0
