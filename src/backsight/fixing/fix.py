"""`backsight fix`: run a program, try what the explanation of its error says, and show the change that works."""

from __future__ import annotations

import difflib
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from backsight.fixing.search import Search, Tried, read
from backsight.fixing.trial import Outcome, run
from backsight.launch.voice import say
from backsight.source.edits import in_words
from backsight.text import counted, inert, listed

_ATTEMPTS = 12


def fix(words: Sequence[str], *, write: bool = False, seconds: float | None = None, most: int = _ATTEMPTS) -> int:
    """Run a program, try the fixes of what is found, and print the change after which it runs, as a diff on stdout.

    Everything else goes to stderr, what the program prints in its first run too; what it prints while it is tried is
    not shown. It runs once for each change: what it writes, it writes again.

    Args:
        words: the script and its arguments, or `-m`, a module and its arguments.
        write: whether to write the change into the files.
        seconds: how long a trial may take; if not given, twice the time of the first run and half a minute. A program
            that still runs then, past its error, is one that runs.
        most: how many changes are tried.

    Returns:
        The exit status: 0 if there is nothing to fix, or with a change nothing is found anymore; else 1.
    """
    first = run(words, {}, None, shown=True)
    if not first.failed and not first.silent:
        say("backsight: nothing to fix")
        return 0
    patience = seconds if seconds is not None else 2 * first.seconds + 30
    if not any(fault.edits for fault in ([first.failure] if first.failure else first.silent)):
        say("", f"backsight: {_nothing_to_try(first)}")
        return 1
    say(
        "",
        "backsight tries the fix",
        "-----------------------",
        "Your files stay as they are: each change runs in memory.",
    )
    search = Search(partial(_try, words, patience), most, _tell)
    found = search.from_(first)
    if found is None and not search.runs:
        say("", "backsight: the change does not fit the program as it stands, so there is none to try")
        return 1
    if found is None:
        say("", f"backsight: none of {counted(search.runs, 'change')} helped; the explanation above is all there is")
        return 1
    return _shown(found, {file: search.read[file] for file in found.texts}, words, write)


def _try(words: Sequence[str], seconds: float, texts: Mapping[str, str]) -> Outcome:
    return run(words, texts, seconds)


def _nothing_to_try(outcome: Outcome) -> str:
    if not outcome.faults:
        return "the error is none that backsight knows, so there is no change to try"
    return "this fix leaves a decision to you, so there is no change to try"


def _tell(tried: Tried) -> None:
    for edit in tried.edits:
        say(f"{'  ' * tried.depth}{in_words(edit)}")
    say(f"{'  ' * tried.depth}  -> {_came_of(tried)}")


def _came_of(tried: Tried) -> str:
    after, of = tried.outcome, tried.of
    if of is not None and any(each.is_like(of) for each in after.faults):
        return "no: the same again"
    if after.failure is not None:
        return f"then another: {after.failure.code} at {after.failure.at}: {after.failure.title}"
    if after.failed:
        return f"no: {after.error or f'it ends with status {after.status}'}"
    ended = f"still runs after {after.seconds:.0f} s" if after.status is None else "runs to its end"
    if after.silent:
        return f"{ended}; then found: {'; '.join(f'{each.code} {each.title}' for each in after.silent)}"
    return ended if not after.steps else f"{ended}: {counted(after.steps, 'optimizer step')}"


def _shown(found: Tried, before: Mapping[str, str], words: Sequence[str], write: bool) -> int:
    if found.is_clean:
        told = "With this change it runs, and nothing is found in it:"
    elif found.outcome.failed:
        told = "This change helps, and then the next error comes:"
    else:
        left = listed(list(dict.fromkeys(each.code for each in found.outcome.silent)))
        told = f"With this change it runs, but then {left} is found, as above. It may be no fix:"
    say("", told, "")
    _put("".join(_diff(file, before[file], text) for file, text in found.texts.items()))
    if not write and found.is_clean:
        say("", f"To write it into your files: {shlex.join(['backsight', 'fix', '--write', *words])}")
    elif write and not found.is_clean:
        say("", "Nothing is written, as that is not the whole of it.")
    elif changed := [os.path.relpath(file) for file, text in before.items() if write and read(file) != text]:
        say("", f"Nothing is written, as {listed(changed)} was changed meanwhile. The change is above.")
        return 1
    elif write:
        for file, text in found.texts.items():
            _write(file, text)
            say(f"backsight: written: {os.path.relpath(file)}")
    return 0 if found.is_clean else 1


def _diff(file: str, before: str, after: str) -> str:
    name = os.path.relpath(file).replace(os.sep, "/")
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _put(text: str) -> None:
    """Print a diff; in colours, if that is a terminal."""
    if sys.stdout.isatty():
        from backsight.text.console import Console
        from backsight.text.rich import Text

        console = Console()
        for line in inert(text).splitlines():
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
            console.print(Text(line, style), soft_wrap=True)
    else:
        sys.stdout.write(text)
        sys.stdout.flush()


def _write(file: str, text: str) -> None:
    """Write a file in place of itself, whole or not at all, with its encoding, its ends of lines and its rights."""
    import tempfile
    import tokenize

    path = Path(os.path.realpath(file))
    with path.open("rb") as old:
        encoding, _ = tokenize.detect_encoding(old.readline)
        old.seek(0)
        newline = "\r\n" if b"\r\n" in old.readline() else "\n"
    handle, new = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding=encoding, newline=newline) as out:
            out.write(text)
        os.chmod(new, path.stat().st_mode)
        os.replace(new, path)
    except BaseException:
        Path(new).unlink(missing_ok=True)
        raise
