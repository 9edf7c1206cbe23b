"""What the pages show is what their code says: all of it is run, commands are understood, and every code has a page."""

from __future__ import annotations

import json
import os
import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from columns import needs_columns

from backsight.diagnosis import UNKNOWN
from backsight.diagnosis.errors import known

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import commands  # noqa: E402
import figures  # noqa: E402
import pages  # noqa: E402

_SOURCE = sorted((ROOT / "src").rglob("*.py"))
CODES = sorted({code for file in _SOURCE for code in re.findall(r'"(BS\d{3})"', file.read_text(encoding="utf-8"))})

_ALL_RIGHT = r"\d+ \w+ tested, (the|every) (backward|second derivative) is (correct|linear)"
NOTHING_FOUND = re.compile(rf"|backsight: (nothing found|{_ALL_RIGHT}).*", re.DOTALL)


def _path(page: Path) -> str:
    return page.relative_to(ROOT).with_suffix("").as_posix()


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    assert [page.stem for page in sorted((ROOT / "docs" / "codes").glob("BS*.md"))] == CODES


_FIGURES = re.compile(r"\d[\d.,]*(e[+-]?\d+)?( kB)?|[·▁▂▃▄▅▆▇█]+")


_TIMES = re.compile(r"(<!-- backsight: docs/first_profile\.py -->\n+```text\n).*?```", re.DOTALL)


def _worded(torch: str) -> dict[str, dict[str, str]]:
    """How a version of PyTorch words what each explanation is for; nothing of a version that was not collected."""
    file = ROOT / "tests" / "messages" / f"{torch}.json"
    messages = json.loads(file.read_text(encoding="utf-8"))["messages"] if file.exists() else {}
    worded: dict[str, dict[str, str]] = {}
    for name, message in messages.items():
        if message is not None:
            worded.setdefault(str(message["code"]), {})[name] = message["text"]
    return worded


def _worded_otherwise() -> set[str]:
    """The codes of errors that this PyTorch words otherwise than the one that pages are filled in with."""
    pinned = re.search(r"^torch==(.*)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned is not None
    here, there = _worded(version("torch").partition("+")[0]), _worded(pinned[1])
    return {code for code in here if here[code] != there.get(code)}


_OTHERWISE = _worded_otherwise()
_QUOTED = re.compile(r"(?P<before><!-- pytorch: [^\n]* -->\n+```text\n)(?P<said>.*?)(?=```)", re.DOTALL)


def _as_understood(quoted: re.Match[str]) -> str:
    """What a page quotes of PyTorch; the code of what explains it where this PyTorch has other words for the same."""
    found = known(" ".join(quoted["said"].split()))
    said = found[0].code if found is not None and found[0].code in _OTHERWISE else quoted["said"]
    return quoted["before"] + said


def _comparable(text: str) -> str:
    """The text; for a page with a recording or a trace without its figures, since processors differ in the last digits.

    A profile is left out: which of its rows is the largest differs from run to run. So are words of PyTorch that this
    version does not have.
    """
    text = _QUOTED.sub(_as_understood, _TIMES.sub(r"\1", text))
    code = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    recorded = "record(" in code or "bs.trace(" in code
    return " ".join(_FIGURES.sub("#", text).split()) if recorded else text


NEED_COLUMNS = frozenset({"BS112", "BS117", "BS121", "BS130", "BS132", "BS173", "diagnosis", "watch"})
"""The pages that quote an expression in a line."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(each, marks=needs_columns) if each.stem in NEED_COLUMNS else each for each in pages.pages()],
    ids=_path,
)
def test_the_code_of_a_page_runs_and_says_what_the_page_quotes(page: Path) -> None:
    if page.stem == "versions" and "BACKSIGHT_ROOM_LOG" in os.environ:
        pytest.skip("what the page is made of is being written")
    now, then = pages.filled(page), page.read_text(encoding="utf-8")
    assert _comparable(now) == _comparable(then), "run `python docs/pages.py`, and read what changed"
    if page.stem in CODES and page.stem != UNKNOWN:
        for name in (each for each in pages.named(then) if each.startswith("right")):
            ran = pages.run_named(name, then)  # after the wrong one, as the starter of programs is warm then
            assert ran.status == 0, ran.err
            assert NOTHING_FOUND.fullmatch(ran.backsight), "the fix of a page leaves nothing to find"


def test_code_that_is_not_run_says_why() -> None:
    found = {_path(page): pages.not_run(page.read_text(encoding="utf-8")) for page in pages.pages()}
    assert {name: reasons for name, reasons in found.items() if reasons} == {
        "docs/agents": ["needs a loss of your own"],
        "docs/integrations": ["it needs an account; tests/integrations/test_mirror_services.py runs such code offline"],
        "docs/notebooks": [
            "a command of IPython's, which tests/integrations run",
            "IPython reads this itself",
            "a command of IPython's, which tests/integrations run",
        ],
    }


FIRST_READ = ("README.md", "docs/index.md", "docs/tutorial.md")


@pytest.mark.parametrize("page", FIRST_READ)
def test_what_a_newcomer_pastes_needs_nothing_that_is_not_shown(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "<!-- given" not in text and not pages.not_run(text)  # all its blocks run in order, in the test above


def _texts() -> dict[Path, str]:
    return {page: page.read_text(encoding="utf-8") for page in [*pages.pages(), ROOT / "CONTRIBUTING.md"]}


def test_the_commands_of_every_page_are_understood() -> None:
    shown = [(page, words) for page, text in _texts().items() for words in commands.commands(text)]
    assert [(page, words, wrong) for page, words in shown if (wrong := commands.complaint(words))] == []


def test_a_wrong_command_would_be_noticed() -> None:
    shown = commands.commands("```sh\n$ backsight run --no-such train.py | less  # why not\nmake nothing\n```\n")
    assert [commands.complaint(words) is not None for words in shown] == [True, True]


def test_no_page_shows_an_empty_answer() -> None:
    assert [page for page, text in _texts().items() if re.search(r"```text\n\s*```", text)] == []


def test_the_readme_is_read_in_a_few_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_a_section_of_the_changelog_is_for_users_and_read_in_a_few_minutes() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert max(len(section.splitlines()) for section in re.split("^## ", changelog, flags=re.MULTILINE)) <= 150


def _cells(page: str, row: str, table: str = "") -> list[str]:
    """The first row that begins so of a table in docs/ that begins so."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    text = text[text.index(f"| {table}") :]
    found = re.search(rf"^\| {re.escape(row)}[^|\n]*\|(.*)\|$", text, re.MULTILINE)
    assert found is not None, f"{page} has no row {row}"
    return [cell.strip() for cell in found[1].split("|")]


def _figures() -> dict[str, str]:
    """What the README says in numbers, and the same as what it counts, or as the page that measured it, has it."""
    perceptron, transformer = (
        _cells("performance.md", f"10,000 steps of a {each}") for each in ("perceptron", "transformer")
    )
    encoder, histograms = (
        _cells("performance.md", row, "transformer |")[-1] for row in ("backsight", "TensorBoard histograms")
    )
    ordinary, released = (_cells("release.md", row)[-1] for row in ("ordinary, fused", "**backsight**"))
    slower, peak = released.removesuffix(" MB").split(" · ")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    python, torch = (re.search(rf'{name}>=([\d.]+)"', project) for name in ('requires-python = "', "torch"))
    assert python is not None and torch is not None
    return {
        r"(\d+) kinds\s+of findings": str(len(list((ROOT / "docs" / "codes").glob("BS*.md")))),
        r"\[(\d+) broken scripts\]": str(len(list((ROOT / "examples" / "broken").glob("*.py")))),
        r"Python ([\d.]+) or later": python[1],
        r"PyTorch ([\d.]+) or later": torch[1],
        r"([\d.]+) times for a perceptron's": perceptron[1],
        r"([\d.]+) times for 10,000 transformer steps": transformer[1],
        r"([\d.]+) times\s+for the perceptron,": f"{float(perceptron[2]):.1f}",
        r"`--record`: ([\d.]+) times for a large encoder": f"{float(encoder):.2f}",
        r"TensorBoard's histograms take ([\d.]+)": f"{float(histograms):.2f}",
        r"adds (\d+) MB at its peak": f"{float(peak):.0f}",
        r"instead of (\d+), in": f"{float(ordinary.removesuffix(' MB').split(' · ')[1]):.0f}",
        r"in ([\d.]+) times the time": slower,
    }


def test_the_figures_of_the_readme_are_those_that_were_counted_and_measured() -> None:
    readme, figures_ = (ROOT / "README.md").read_text(encoding="utf-8"), _figures()
    said = {what: found[1] if (found := re.search(what, readme)) else None for what in figures_}
    assert said == figures_


def test_links_lead_somewhere() -> None:
    for page, text in _texts().items():
        prose = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
        links = re.findall(r"\]\((?!https?:)([^)#]+)", prose)
        assert [link for link in links if not (page.parent / link).exists()] == [], page


def test_the_architecture_page_lists_the_rooms() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    house = ROOT / "src" / "backsight"
    rooms = {each.stem for each in house.iterdir() if each.suffix == ".py" or (each / "__init__.py").exists()}
    listed = re.findall(r"^\| [\w, ]*\| `(\w+)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(rooms - {"__init__", "__main__", "_version", "_tested", "demo"})


def test_a_section_stands_where_its_figures_were_measured_and_nowhere_else(tmp_path, monkeypatch):
    page = "# Page\n\n<!-- section if measured: device, On a GPU -->\nold\n<!-- end -->\n"
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    assert figures.filled(page) == "# Page\n\n<!-- section if measured: device, On a GPU -->\n<!-- end -->\n"
    machine = {"device": "Fast GPU", "processor": "CPU", "cores": 2, "load": 0.5}
    parts = [{"note": "not shown"}, {"title": "Steps", "columns": ["step", "ms"], "rows": [["small", "1.0"]]}]
    result = {"command": "python bench/device.py", "date": "2027-01-31", "machine": machine, "parts": parts}
    result["versions"] = {"python": "3.12", "torch": "2.15"}
    (tmp_path / "device.json").write_text(json.dumps(result), encoding="utf-8")
    shown = figures.filled(page)
    assert "## On a GPU\n\nSteps:\n\n| step | ms |" in shown
    assert "`python bench/device.py`, 2027-01-31: Fast GPU, CPU, 2 cores, Python 3.12, PyTorch 2.15" in shown
    assert figures.filled(shown) == shown


def test_the_page_on_release_says_that_no_optimizer_differs_where_none_does():
    result = json.loads((figures.RESULTS / "release_optimizers.json").read_text(encoding="utf-8"))
    assert result["parts"][0]["columns"] == ["library", "exact", "refused when attached", "does not run"]
