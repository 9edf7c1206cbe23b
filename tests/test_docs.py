"""What the pages show is what the programs say: each page's programs are run, and every code has a page."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from backsight.diagnosis import UNKNOWN
from backsight.diagnosis.errors import ERRORS
from backsight.diagnosis.live.culprit import LEAK
from backsight.diagnosis.live.deaf import DEAF
from backsight.diagnosis.recordings import RULES as RULES_OF_RECORDINGS
from backsight.diagnosis.rules import RULES
from backsight.verification import CODES as CODES_OF_VERIFICATION

ROOT = Path(__file__).parent.parent
CODES = sorted(
    {UNKNOWN, LEAK, DEAF, *RULES, *RULES_OF_RECORDINGS, *(error.code for error in ERRORS), *CODES_OF_VERIFICATION}
)

NOTHING_FOUND = re.compile(r"|backsight: (nothing found|the (backward|second derivative) of .* is ).*", re.DOTALL)


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


pages = _load(ROOT / "docs" / "pages.py")


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert [page.stem for page in sorted((ROOT / "docs" / "codes").glob("*.md"))] == CODES


_FIGURES = re.compile(r"\d[\d.,]*(e[+-]?\d+)?( kB)?|[▁▂▃▄▅▆▇█]+")


_TIMES = re.compile(r"(<!-- backsight: docs/first_profile\.py -->\n+```text\n).*?```", re.DOTALL)


def _comparable(text: str) -> str:
    """The text; for a page with a recording without its figures, since processors differ in the last digits.

    A profile is left out: which of its rows is the largest differs from run to run.
    """
    text = _TIMES.sub(r"\1", text)
    return " ".join(_FIGURES.sub("#", text).split()) if "record(" in text else text


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: page.stem)
def test_what_a_page_quotes_is_what_its_programs_say(page: Path) -> None:
    now, then = pages.filled(page), page.read_text(encoding="utf-8")
    assert _comparable(now) == _comparable(then), "run `python docs/pages.py`, and read what changed"


@pytest.mark.parametrize("code", [code for code in CODES if code != UNKNOWN])
def test_the_cure_of_a_page_works(code: str) -> None:
    ran = pages.run_named("right", (ROOT / "docs" / "codes" / f"{code}.md").read_text(encoding="utf-8"))
    assert ran.status == 0, ran.err
    assert NOTHING_FOUND.fullmatch(ran.backsight)


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: page.stem)
def test_no_page_shows_an_empty_answer(page: Path) -> None:
    assert not re.search(r"```text\n\s*```", page.read_text(encoding="utf-8"))


def test_the_readme_lists_every_code() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [code for code in CODES if f"docs/codes/{code}.md" not in readme and code != UNKNOWN] == []


@pytest.mark.parametrize("page", [*pages.pages(), ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
