"""Fill in what the pages show: what their code prints, what PyTorch and backsight say of it, and figures.

    python docs/pages.py            # rewrites README.md and docs/**/*.md
    python docs/pages.py --check    # only says which pages are out of date
    python docs/pages.py README.md docs/tutorial.md    # these alone

A comment says what the text block below it is filled with:

    <!-- prints -->                                        what the Python block above it prints
    <!-- pytorch: examples/broken/04_inplace_saved.py -->   the last message of its traceback
    <!-- backsight: wrong -->                               what `backsight run` adds, or what the program prints
    <!-- backsight: wrong --leaks -->                       the same, run with that option

`wrong` and `right` are the first Python blocks under the headings "Wrong" and "Right" of the same page. A heading may
go on, as "Wrong: a step" does, and so does the name of its block. All other Python blocks of a page are run one after
the other, in one namespace, as one script. A comment that no reader sees may give them what they need, and one may say
why the block below it is not run:

    <!-- given                                              <!-- not run: it needs a GPU -->
    from given import loss, model
    -->

Up to `<!-- end -->`, `<!-- bench: capture -->` is what `bench/performance.py` has measured (with `1-2`: its second
and third table), `<!-- codes: 1 -->` lists the codes from BS100 to BS199 with the titles of their pages, `<!--
command: runs show -->` is what a command takes, and `<!-- matrix -->` is the table of what `make matrix` has tried.
`<!-- section if measured: device, On a GPU -->` is a section with that heading, and nothing without such a result.
"""

from __future__ import annotations

import re
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import commands
import figures
import programs
import tested

ROOT = Path(__file__).parent.parent

_FILLED = re.compile(r"(<!-- (prints|pytorch|backsight)(?:: (\S.*?))? -->\n+```text\n)(?:.*?\n)??(```\n)", re.DOTALL)
_CODE = re.compile(
    r"(?:<!-- not run: (?P<reason>[^\n]+) -->\n+)?^```python\n(?P<block>.*?)^```$"
    r"|^<!-- given\n(?P<given>.*?)^-->$"
    r"|^<!-- prints -->$",
    re.DOTALL | re.MULTILINE,
)
_OPTIONS = re.compile(r"<!-- backsight: wrong((?: --\S+)*) -->")
_LISTED = re.compile(r"(<!-- codes: (\d) -->\n).*?(<!-- end -->)", re.DOTALL)
_TITLE = re.compile(r"# (BS\d+): (.*)")
_RAISED = re.compile(r"<!-- pytorch: wrong -->\n+```text\n(.*?)```", re.DOTALL)
_PROGRAM = re.compile(r"^## ((?:Wrong|Right)(?:: .*)?)$", re.MULTILINE)
"""A heading with a program of its own below it."""


def pages() -> list[Path]:
    """Return the pages that this script looks after."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def filled(page: Path) -> str:
    """Return the text of a page with what its code says now; all of its code is run for it."""
    text = page.read_text(encoding="utf-8")
    prints = iter(printed(text))

    def block(found: re.Match[str]) -> str:
        said = next(prints) if found[2] == "prints" else _said(found[2], found[3], text)
        if not said:
            raise ValueError(f"{found[0].splitlines()[0]} of {page.name} says nothing")
        return f"{found[1]}{said}\n{found[4]}"

    return commands.filled(_LISTED.sub(_listed, tested.filled(figures.filled(_FILLED.sub(block, text)))))


def printed(text: str) -> list[str]:
    """Run the code of a page as one script, and return what those blocks print of which that is shown."""
    sources: list[str] = []
    shown: list[int] = []
    for found in _CODE.finditer(_without_programs(text)):
        if found["given"] is not None or (found["block"] is not None and found["reason"] is None):
            sources.append(found["given"] or found["block"])
        elif found["block"] is None:
            shown.append(len(sources) - 1)
    prints = programs.blocks("train.py", sources) if sources else []
    return [prints[number].strip("\n") for number in shown]


def not_run(text: str) -> list[str]:
    """Return why blocks of a page are not run."""
    return [found["reason"] for found in _CODE.finditer(text) if found["reason"] is not None]


def named(text: str) -> list[str]:
    """Return what a page calls the programs that it shows: `wrong`, `right`."""
    return [heading.lower() for heading in _PROGRAM.findall(text)]


def run_named(name: str, text: str) -> programs.Run:
    """Run the program which a page calls `wrong` or `right`, or a file of this repository."""
    if name in named(text):
        options = _OPTIONS.search(text)
        return programs.program(_under(text, name)[1], "train.py", *(options[1].split() if options else ()))
    return programs.program((ROOT / name).read_text(encoding="utf-8"), Path(name).name)


def _said(kind: str, name: str, text: str) -> str:
    run = run_named(name.partition(" --")[0], text)
    return run.pytorch if kind == "pytorch" else run.backsight


def _under(text: str, heading: str) -> re.Match[str]:
    """Find the first Python block under a heading of a page; its code is group 1."""
    code = rf"^## {re.escape(heading)}$.*?^```python\n(.*?)^```$"
    found = re.search(code, text, re.DOTALL | re.MULTILINE | re.IGNORECASE)
    if found is None:
        raise ValueError(f"the page has no Python block under a heading {heading!r}")
    return found


def _without_programs(text: str) -> str:
    """Return a page without the blocks that are programs of their own."""
    for heading in named(text):
        found = _under(text, heading)
        text = text[: found.start()] + text[found.end() :]
    return text


def _listed(found: re.Match[str]) -> str:
    """List the pages of the codes that begin with a digit: the title, and the beginning of what PyTorch raises."""
    rows = []
    for page in sorted((ROOT / "docs" / "codes").glob(f"BS{found[2]}*.md")):
        text = page.read_text(encoding="utf-8")
        code, title = _TITLE.match(text).groups()  # type: ignore[union-attr]  # a test sees to it
        raised = _RAISED.search(text)
        said = textwrap.shorten(raised[1], 110, placeholder=" ...") if raised else ""
        rows.append(f"| [{code}]({page.name}) | {title} | {f'`{said}`' if said else ''} |")
    if all(row.endswith("|  |") for row in rows):
        rows = ["| | |", "|---|---|", *(row.removesuffix("  |") for row in rows)]
    else:
        rows = ["| | | PyTorch says |", "|---|---|---|", *rows]
    return "\n".join([found[1], *rows, "", found[3]])


def main() -> int:
    check, named = "--check" in sys.argv[1:], [Path(name).resolve() for name in sys.argv[1:] if name != "--check"]
    stale = False
    for are_lists in (False, True):  # a list of pages quotes them as they are then
        wanted = [page for page in named or pages() if (page.name == "index.md") is are_lists]
        with ThreadPoolExecutor(max_workers=4) as pool:
            texts = dict(zip(wanted, pool.map(filled, wanted), strict=True))
        for page, text in texts.items():
            if text != page.read_text(encoding="utf-8"):
                stale = True
                print(f"{'out of date' if check else 'filled in'}: {page.relative_to(ROOT)}")
                if not check:
                    page.write_text(text, encoding="utf-8")
    return int(check and stale)


if __name__ == "__main__":
    sys.exit(main())
