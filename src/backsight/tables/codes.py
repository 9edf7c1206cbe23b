"""`backsight explain`: the page of a code, or of the code that an error message belongs to, in the terminal."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from textwrap import TextWrapper, indent
from threading import Timer

from backsight.tables.printing import complain, output, show
from backsight.tables.text import line
from backsight.text import PIPED, inert, listed
from backsight.text.meant import beside, meant, offered

_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_LINK = re.compile(r"(```.*?```|`[^`]*`)|\[([^\]]*)\]\(([^)]*)\)", re.DOTALL)
"""A link, or code, in which what looks like a link is none: `model[0](x)`."""


def explain_code(words: Sequence[str] = ()) -> int:
    """Print the pages that words ask for: codes, an error message, a file that holds one, or `-` for stdin.

    Without words, explain what is piped in, or list all codes. Return 2 if there is nothing for them, else 0.
    """
    known = pages()
    if not known:
        complain("the pages of the codes are not installed; they are in docs/codes of the repository")
        return 2
    if not words:
        piped = _piped()
        if piped.strip():
            return _explain_text(piped, known)
        _show_by_kind(known)
        return 0
    codes = [_spelt(word) for word in words]
    if all(code in known for code in codes):
        for code in codes:
            show_page(known[code].read_text(encoding="utf-8"))
        return 0
    if len(words) == 1 and not _is_message(words[0]):
        return _none(words[0], known)
    text = " ".join(words)
    try:
        held = sys.stdin.read() if text == "-" else _read(text)
    except OSError as error:
        complain(f"{inert(text)} cannot be read: {error.strerror or error}")
        return 2
    return _explain_text(held, known, script=text if text.endswith(".py") and held != text else "")


def _piped() -> str:
    """Return what comes from stdin, to its end, unless that is a terminal: a training fails long after it has begun.

    Where nothing ends it, as an inherited pipe of CI, it says what it waits for.
    """
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    waiting = Timer(_LONG, complain, ("reading a message from stdin, to its end (`< /dev/null` lists all codes)",))
    waiting.daemon = True
    waiting.start()
    try:
        return sys.stdin.read()
    except (OSError, ValueError):  # stdin is closed
        return ""
    finally:
        waiting.cancel()
        waiting.join()  # the interpreter must not end while it writes


_LONG = 1.0
"""Seconds without a word."""


def _spelt(word: str) -> str:
    """Return a code as it is spelt: `BS201` of `bs201`, `BS-201` and `201`."""
    found = re.fullmatch(r"(?:bs)?[-_ ]?(\d{3})", word.strip().strip(":,."), re.IGNORECASE)
    return f"BS{found[1]}" if found else word


def _is_message(word: str) -> bool:
    return " " in word.strip() or word == "-" or os.path.isfile(word)


def _explain_text(held: str, known: dict[str, Path], script: str = "") -> int:
    """Print the page of the code that a message belongs to; of a script that holds none, say what runs it."""
    from backsight.tables.messages import codes_of, describing, program_of, quoting, raised_at

    codes = [code for code in codes_of(held) if code in known]
    if script and not codes:
        complain(f"{inert(script)} holds no error message; to have it run: backsight run {shlex.quote(script)}")
        return 2
    codes = codes or quoting(held, {code: page.read_text(encoding="utf-8") for code, page in known.items()})
    described = [] if codes else [code for code in describing(held) if code in known]
    if len(codes) > _MOST or len(described) > 1:
        show_all({code: known[code] for code in codes or described})
        return 0
    codes = codes or described
    if not codes:
        complain(
            f"no page is about this message. `backsight run {_script(held)}` shows the line that failed and its "
            "tensors; `backsight explain` lists all codes"
        )
        return 2
    if not _NAMED.search(held) and (place := raised_at(held)) and _show_read(held, *place):
        show("", line(f"The whole page, with right code: backsight explain {' '.join(codes)}"))
        show(line(f"With the values of your tensors: backsight run {_script(held)}"))
        return 0
    for code in codes:
        show_page(_led(known[code].read_text(encoding="utf-8"), program_of(held)))
    if not _NAMED.search(held):  # last, since a terminal shows the end
        pages_of = f"the page of {codes[0]}" if len(codes) == 1 else f"the pages of {listed(codes, len(codes))}"
        note = f"{'This is' if len(codes) == 1 else 'These are'} {pages_of}."
        show("", line(f"{note} With your own variables and lines: backsight run {_script(held)}"))
    return 0


def _show_read(held: str, file: str, number: int, statement: str) -> bool:
    """Show what the source files that a traceback names tell of its error, and whether they do; else its text."""
    from backsight.diagnosis.pasted import NotRead, explained_text
    from backsight.tables.messages import pasted, read_out

    error, why = pasted(held), ""
    try:
        if error is not None and (finding := explained_text(error.kind, error.message, error.lines)) is not None:
            show(line("Read from the source files that the traceback names, without running them:"), "", finding)
            return True
    except NotRead as reason:
        why = f"Its source was not read: {reason}"
    said = f"Raised at {_shortened(file)}:{number}{f', {statement}' * bool(statement)}."
    show(*map(line, filter(None, [read_out(held), said, why])), "")
    return False


_NAMED = re.compile(r"\bBS\d{3}\b")
_OUTERMOST = re.compile(r'^[^"\n]*File "([^"\n]+\.py)", line \d+, in <module>$', re.MULTILINE)


def _script(text: str) -> str:
    """Return the script that a traceback begins in, as one would type it; `train.py` if there is none."""
    found = _OUTERMOST.search(text)
    return shlex.quote(_shortened(found[1])) if found else "train.py"


def _shortened(file: str) -> str:
    return file.removeprefix(f"{os.getcwd()}{os.sep}")


def _read(text: str) -> str:
    """Return what is in a file of this name; the text itself if there is none."""
    # Path.is_file() raises for what is too long to be a name, as most messages are; this does not.
    return Path(text).read_text(encoding="utf-8", errors="replace") if os.path.isfile(text) else text


def _none(word: str, known: dict[str, Path]) -> int:
    """Say what there is instead of a code that there is not: pages about this word, or codes and files close to it."""
    about = [] if re.match(r"(?:bs)?\d", word, re.IGNORECASE) else _about(word, known)
    if about:
        show_all({code: known[code] for code in about})
        return 0
    wanted = word.upper() if word.upper().startswith("BS") else f"BS{word}"
    lacking = [f"{wanted[:3]}0{wanted[3:]}"] if re.fullmatch(r"BS\d\d", wanted) else []  # a zero, else the last digit
    begun = [each for each in known if each in lacking or (len(wanted) > 3 and each.startswith(wanted))]
    if re.search(r"[./\\]", word):
        what, near = "code and no file", beside(word, Path.is_file)
    elif re.fullmatch(r"BS\d+", wanted) and not begun and len(wanted) != len("BS201"):
        what, near = "code", "; codes have three digits: `backsight explain` lists them"
    elif re.match(r"BS\d", wanted):
        near = offered(begun[:_MOST]) or meant(wanted, known, 3, 0.7)
        what, near = "code", near or f"; they go from {min(known)} to {max(known)}: `backsight explain` lists them"
    else:
        complain(f"{word!r} is neither a code nor an error message that is known; `backsight explain` lists all codes")
        return 2
    complain(f"there is no {what} {word!r}{near or '; `backsight explain` lists all codes'}")
    return 2


def _about(word: str, known: dict[str, Path]) -> list[str]:
    """Return the codes whose titles have a word; else those whose pages have it, if these are not many."""
    asked = re.compile(rf"\b{re.escape(word)}", re.IGNORECASE)
    in_titles = [code for code, title in titles(known).items() if asked.search(title)]
    in_pages = [code for code, page in known.items() if asked.search(page.read_text(encoding="utf-8"))]
    return in_titles or (in_pages if len(in_pages) <= _FEW else [])


_FEW = 10
"""Pages that are listed for a word that no title has."""

_MOST = 5
"""Codes that are named in place of one that there is not."""


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


def titles(known: dict[str, Path]) -> dict[str, str]:
    """Return what each code is called."""
    firsts = ((code, page.read_text(encoding="utf-8").partition("\n")[0]) for code, page in known.items())
    return {code: first.removeprefix("# ").removeprefix(f"{code}: ") for code, first in firsts}


KINDS = {
    "BS1": "Before backward: what an audit finds",
    "BS2": "Errors, explained",
    "BS3": "Over a training: what the audit of a recording finds",
    "BS4": "Gradients that are wrong: what verification finds",
    "BS5": "Between two trainings: where they diverge",
}
"""What the codes that begin so are about, as in docs/codes/index.md."""


def _show_by_kind(known: dict[str, Path]) -> None:
    for number, (begun, kind) in enumerate(KINDS.items()):
        sys.stdout.write("\n" * (number > 0) + f"{kind}\n")
        show_all({code: page for code, page in known.items() if code.startswith(begun)})


def show_all(known: dict[str, Path]) -> None:
    for code, title in titles(known).items():
        sys.stdout.write(f"{code}  {title}\n")


def show_page(text: str) -> None:
    """Show a page: laid out on a terminal, as plain text in a file, without what is meant for the docs alone."""
    linked = _LINK.sub(_linked, _COMMENT.sub("", text))
    is_terminal = output().is_terminal
    room = output().width - 6 if is_terminal else PIPED - 4  # of what is quoted, between margins
    fitting = _QUOTED.sub(lambda found: f"```text\n{refitted(found[1], room)}```", linked)
    if not is_terminal:
        sys.stdout.write(plain(fitting))
        return
    from backsight.text.rich import Padding, markdown

    show(Padding(markdown(fitting), (1, 2)))


_QUOTED = re.compile(r"^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def refitted(quoted: str, room: int) -> str:
    """Return what backsight says, as a page quotes it, in lines of another width.

    >>> print(refitted("  fix: Write y = x.exp() in a line of its own.\\n", 30), end="")
      fix: Write y = x.exp() in a
      line of its own.
    """
    told: list[str] = []
    before = ""
    for each in quoted.splitlines():
        text = each.lstrip(" ")
        had_no_room = len(before) + 1 + len(text.partition(" ")[0]) > PIPED
        if before and text and had_no_room and _margin(before) == _margin(each) and not text.startswith(_MARK):
            told[-1] += f" {text}"
        else:
            told.append(each)
        before = each
    return "".join(f"{row}\n" for each in told for row in _rows(each, room))


def _rows(text: str, room: int) -> list[str]:
    margin = _margin(text)
    return _WRAPPING(room, text[:margin], " " * margin).wrap(text[margin:].strip()) or [""]


_WRAPPING = partial(TextWrapper, break_long_words=False, break_on_hyphens=False, replace_whitespace=False)


_MARK = "> "
"""What stands in the margin of the line at fault."""


def _margin(text: str) -> int:
    return len(text) - len(text.removeprefix(_MARK).lstrip(" "))


_FENCED = re.compile(r"^```\w*\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)
_STRESSED = re.compile(r"(`[^`]*`)|(?<!\*)(\*{1,2})(?=\S)([^*`]+?)(?<=\S)\2(?!\*)")
_PARAGRAPH = re.compile(
    r"^(?P<mark> *(?:- |\d+\. ))?(?=[^\s|#])[^\n]*(?:\n(?! *(?:- |\d+\. )|[|#])[^\n]*\S[^\n]*)*", re.MULTILINE
)
_RULE = re.compile(r"^\|(?:-+\|)+\n", re.MULTILINE)
_ROW = re.compile(r"^\| ?(.*?) ?\|$", re.MULTILINE)


def plain(text: str) -> str:
    """Return Markdown as text without its marks: code is indented, and a heading underlined.

    >>> plain("# Title\\n\\nNot *so*: `x`\\n\\n```python\\ny = 2**x\\n```\\n")
    'Title\\n=====\\n\\nNot so: `x`\\n\\n    y = 2**x\\n'
    """
    parts = _FENCED.split(text)  # prose and code in turn
    parts[1::2] = [indent(code, "    ") for code in parts[1::2]]
    parts[::2] = [_plain_prose(prose) for prose in parts[::2]]
    return "".join(parts)


def _plain_prose(prose: str) -> str:
    prose = _STRESSED.sub(lambda found: found[1] or found[3], prose)
    prose = _PARAGRAPH.sub(_in_columns, prose)
    prose = _HEADING.sub(lambda found: f"{found[2]}\n{('=' if found[1] == '#' else '-') * len(found[2])}", prose)
    return _ROW.sub(r"\1", _RULE.sub("", prose))


def _in_columns(paragraph: re.Match[str]) -> str:
    margin = " " * len(paragraph["mark"] or "")
    return _WRAPPING(PIPED, "", margin).fill(re.sub(r"\n *", " ", paragraph[0]))


def _led(page: str, word: str) -> str:
    """Return a page that begins with the sections whose headings have this word."""
    title, *sections = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    return title + "".join(sorted(sections, key=lambda each: word not in each.partition("\n")[0]))


def _linked(found: re.Match[str]) -> str:
    """Return a link as a terminal has it: its text, and where it leads unless that is the page of the code it names."""
    code, text, where = found.groups()
    if code is not None:
        return code
    if where.startswith("http"):
        return f"{text} ({where})"
    page = where.partition("#")[0].removeprefix("../")
    return text if page.startswith("BS") or not page else f"{text} (docs/{page})"
