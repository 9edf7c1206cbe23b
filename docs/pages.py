"""Fill in what PyTorch and backsight say, by running the programs that the pages show.

    python docs/pages.py            # rewrites README.md and docs/**/*.md
    python docs/pages.py --check    # only says which pages are out of date

A comment names the program; the text block below it is filled in:

    <!-- pytorch: examples/broken/04_inplace_saved.py -->   the last message of its traceback
    <!-- backsight: wrong -->                               what `backsight run` adds, or what the program prints
    <!-- backsight: wrong --leaks -->                       the same, run with that option

`wrong` and `right` are the first Python blocks under the headings "Wrong" and "Right" of the same page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
WIDTH = 100

_FILLED = re.compile(r"(<!-- (pytorch|backsight): (\S+)(?: --\S+)* -->\n+```text\n)(?:.*?\n)??(```\n)", re.DOTALL)
_OPTIONS = re.compile(r"<!-- backsight: wrong((?: --\S+)*) -->")
_HEADLINE = re.compile(r"\n(backsight explains|backsight found)\n-+\n")


@dataclass(frozen=True)
class Run:
    """What a program said: its stdout, its own stderr, and what backsight added.

    It runs under `backsight run`, unless it imports backsight itself.
    """

    status: int
    out: str
    err: str
    said: str

    @property
    def pytorch(self) -> str:
        """The message of the exception that ended the program."""
        lines = re.sub(r"^\[rank0\]: ", "", self.err, flags=re.MULTILINE).rstrip().split("\n")
        start = max((k for k, line in enumerate(lines) if re.match(r"\w[\w.]*(Error|Exception): ", line)), default=None)
        if start is None:
            raise ValueError(f"no exception ended the program:\n{self.err}")
        return _wrapped("\n".join(lines[start:]))

    @property
    def backsight(self) -> str:
        """What backsight added; for a program that calls backsight itself, what it printed."""
        return self.said or self.out.strip()


def pages() -> list[Path]:
    """Return the pages that this script looks after."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def filled(page: Path) -> str:
    """Return the text of a page, with what its programs say now."""
    text = page.read_text(encoding="utf-8")

    def block(found: re.Match[str]) -> str:
        run = run_named(found[3], text)
        said = getattr(run, found[2])
        if not said:
            raise ValueError(f"{found[3]} of {page.name} says nothing:\n{run.err}")
        return f"{found[1]}{said}\n{found[4]}"

    return _FILLED.sub(block, text)


def run_named(name: str, text: str) -> Run:
    """Run the program which a page calls `wrong` or `right`, or a file of this repository."""
    if name in ("wrong", "right"):
        options = _OPTIONS.search(text)
        return _run(program(text, name), "train.py", *(options[1].split() if options else ()))
    return _run((ROOT / name).read_text(encoding="utf-8"), Path(name).name)


def program(text: str, heading: str) -> str:
    """Return the first Python block under a heading of a page."""
    found = re.search(rf"^## {heading}\b.*?```python\n(.*?)```", text, re.DOTALL | re.MULTILINE | re.IGNORECASE)
    if found is None:
        raise ValueError(f"the page has no Python block under a heading {heading!r}")
    return found[1]


@lru_cache(None)
def _run(source: str, name: str, *options: str) -> Run:
    is_ours = re.search(r"^ *(import|from) backsight", source, re.MULTILINE)
    command = [] if is_ours else ["-m", "backsight", "run", "--quiet", *options]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, name).write_text(source, encoding="utf-8")
        ended = subprocess.run(
            [sys.executable, *command, name],
            cwd=folder,
            env={**os.environ, "COLUMNS": str(WIDTH)},
            capture_output=True,
            encoding="utf-8",
            timeout=300,
        )
    err, *rest = _HEADLINE.split(ended.stderr)
    return Run(ended.returncode, ended.stdout, err, rest[-1].strip() if rest else "")


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.fill(line, WIDTH, break_long_words=False) for line in text.split("\n"))


def main() -> int:
    check = "--check" in sys.argv[1:]
    with ThreadPoolExecutor() as pool:
        texts = dict(zip(pages(), pool.map(filled, pages()), strict=True))
    stale = [page for page, text in texts.items() if text != page.read_text(encoding="utf-8")]
    for page in stale:
        print(f"{'out of date' if check else 'filled in'}: {page.relative_to(ROOT)}")
        if not check:
            page.write_text(texts[page], encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
