"""`backsight explain BS201`: the page of a code, as the docs have it, in the terminal."""

from __future__ import annotations

import re
import sys
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from backsight.tables.printing import complain, output, show

_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_LINK = re.compile(r"(```.*?```|`[^`]*`)|\[([^\]]*)\]\([^)]*\)", re.DOTALL)
"""A link, or code, in which what looks like a link is none: `model[0](x)`."""


def explain_code(code: str | None) -> int:
    """Print the page of a code, or a line for each code there is. Return 2 if there is no such code, else 0."""
    known = pages()
    if not known:
        complain("the pages of the codes are not installed; they are in docs/codes of the repository")
        return 2
    if code is None:
        show_all(known)
        return 0
    wanted = code.upper() if code.upper().startswith("BS") else f"BS{code}"
    if wanted not in known:
        near = get_close_matches(wanted, known, 3, 0.7)
        hint = f"close to it: {', '.join(near)}" if near else "`backsight explain` lists all codes"
        complain(f"there is no code {code!r}; {hint}")
        return 2
    show_page(known[wanted].read_text(encoding="utf-8"))
    return 0


@cache
def pages() -> dict[str, Path]:
    """The page of each code: as it was installed, or as the source has it."""
    package = Path(__file__).parents[1]
    folder = next(
        (each for each in (package / "codes", package.parents[1] / "docs" / "codes") if each.is_dir()), package
    )
    return {each.stem: each for each in sorted(folder.glob("BS*.md"))}


def page_of(code: str) -> str | None:
    """Return the page of a code in Markdown, without what is meant for the docs alone; None if there is none."""
    page = pages().get(code)
    return None if page is None else _COMMENT.sub("", page.read_text(encoding="utf-8"))


def show_all(known: dict[str, Path]) -> None:
    for code, page in known.items():
        title = page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ").removeprefix(f"{code}: ")
        sys.stdout.write(f"{code}  {title}\n")


def show_page(text: str) -> None:
    """Show a page: laid out on a terminal, as it was written in a file, without what is meant for the docs alone."""
    plain = _COMMENT.sub("", text)
    if not output().is_terminal:
        sys.stdout.write(plain)
        return
    from backsight.text.rich import Padding, markdown

    show(Padding(markdown(_LINK.sub(lambda found: found[1] or found[2], plain)), (1, 2)))
