"""`backsight fix`: run a program, try what the explanation of its error says, and show the change that works."""

from __future__ import annotations

import difflib
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from backsight.fixing.search import Search, Tried, read
from backsight.fixing.trial import Fault, Outcome, run
from backsight.launch.voice import say
from backsight.source.edits import in_words
from backsight.text import counted, inert, listed

_ATTEMPTS = 12

_NAMED = 8
"""Parameters that are named, and not counted."""


def fix(
    words: Sequence[str], *, write: bool = False, way: int = 1, seconds: float | None = None, most: int = _ATTEMPTS
) -> int:
    """Run a program, try the fixes of what is found, and print the change after which it runs, as a diff on stdout.

    Everything else goes to stderr, what the program prints in its first run too; what it prints while it is tried is
    not shown. It runs once for each change: what it writes, it writes again.

    Args:
        words: the script and its arguments, or `-m`, a module and its arguments.
        write: whether to write the change into the files.
        way: which of several changes that do, from 1 in the order in which they are told.
        seconds: how long a trial may take; if not given, twice the time of the first run and half a minute. A program
            that still runs then, past its error, is one that runs.
        most: how many changes are tried.

    Returns:
        The exit status: 0 if there is nothing to fix, or a change mends the error, or all that was found; else 1.
    """
    first = run(words, {}, None, shown=True)
    if not first.failed and not first.silent:
        say("backsight: nothing to fix")
        return 0
    patience = seconds if seconds is not None else 2 * first.seconds + 30
    closely = first.unwatched and not _has_edits(first)
    if closely:
        say("", "backsight: only the first steps were watched; it runs again, and all of it is")
        seen = run(words, {}, patience, closely=True)
        say(*(f"  {line}" for line in _seen_closely(seen)))
        first = seen if _has_edits(seen) else first
    if not _has_edits(first):
        say("", f"backsight: {_nothing_to_try(first)}")
        return 1

    def try_(texts: Mapping[str, str]) -> Outcome:
        return run(words, texts, patience, closely=closely)

    say(
        "",
        "backsight tries the fix",
        "-----------------------",
        "Your files stay as they are: each change runs in memory.",
    )
    search = Search(try_, most, _tell)
    found = search.from_(first)
    if found is None and not search.runs:
        say("", "backsight: the change does not fit the program as it stands, so there is none to try")
        return 1
    if found is None:
        none = (
            f"none of {counted(search.runs, 'change')} helped" if search.runs > 1 else "that change alone did not help"
        )
        say("", f"backsight: {none}; what is found above holds all the same")
        return 1
    if len(search.ways) > 1 or way > 1:
        if way > len(search.ways):
            few = len(search.ways)
            say("", f"backsight: there is no way {way}: {counted(few, 'change')} do{'es' * (few == 1)}")
            return 1
        found = search.ways[way - 1]
    ended = _shown(found, {file: search.read[file] for file in found.texts}, words, write, way)
    if way == 1 and not write:
        _tell_others(search.ways, words)
    return ended


def _asked(outcome: Outcome) -> Sequence[Fault]:
    return [outcome.failure] if outcome.failure else outcome.silent


def _has_edits(outcome: Outcome) -> bool:
    return any(fault.edits for fault in _asked(outcome))


def _seen_closely(outcome: Outcome) -> list[str]:
    return [text for each in _asked(outcome) for text in (f"{each.code} at {each.at}: {each.title}", each.fix) if text]


def _nothing_to_try(outcome: Outcome) -> str:
    if not _asked(outcome):
        return "the error is none that backsight knows, so there is no change to try"
    if not any(fault.fix for fault in _asked(outcome)):
        return "no fix of this is known, so there is no change to try"
    return "no edit of this fix is known that could be tried: it is yours to make, as its words say"


def _tell(tried: Tried, ended: bool) -> None:
    indent = "  " * tried.depth
    if ended:
        say(f"{indent}  -> {_came_of(tried)}")
    elif tried.without:
        gone = listed([in_words(edit) for edit in tried.without[-1].edits])
        say(f"{indent}is an earlier change still needed? The same, but without this: {gone}")
    else:
        say(*(f"{indent}{in_words(edit)}" for edit in tried.edits))


def _tell_others(ways: Sequence[Tried], words: Sequence[str]) -> None:
    """Tell what else would do, and how that is had."""
    for n, way in enumerate(ways[1:], 2):
        left = [*filter(None, (_untrained(way.outcome), _unused(way)))]
        say("", f"{'Or' if n == 2 else 'Or else'}, which {listed(['may mean something else', *left])}:")
        for each in way.chain:
            say(*(f"  {in_words(edit)}" for edit in each.edits))
        say("", f"To see it as a diff: {shlex.join(['backsight', 'fix', '--way', str(n), *words])}")


def _came_of(tried: Tried) -> str:
    after, of = tried.outcome, tried.of
    if of is not None and any(each.is_like(of) for each in after.faults):
        return "no: the same again"
    if tried.without and not tried.does:
        left = after.failure or next(iter(after.silent), None)
        return f"yes: {f'{left.code} at {left.at}: {left.title}' if left is not None else 'it fails without that'}"
    if tried.stopped:
        return f"no: it runs, but does not train {_names(tried.stopped)} anymore"
    if after.trains_nothing:
        idle = [f"{each.code} {each.title}" for each in after.silent] if after.moved else []
        return f"no fix: it runs, but does not train {'; '.join(idle) or 'anything'}"
    if after.failure is not None:
        return f"that error is gone; the next one: {after.failure.code} at {after.failure.at}: {after.failure.title}"
    if after.failed:
        return f"no: {after.error or f'it ends with status {after.status}'}"
    ended = f"still runs after {after.seconds:.0f} s" if after.status is None else "runs to its end"
    if after.silent:
        return f"{ended}; then found: {'; '.join(f'{each.code} {each.title}' for each in after.silent)}"
    if not after.steps:
        return ended
    trained = f", {counted(len(after.moved), 'parameter')} trained" if after.moved else ""
    still = f", {still}" if (still := _untrained(after)) else ""
    return f"{ended}: {counted(after.steps, 'optimizer step')}{trained}{still}"


def _untrained(outcome: Outcome) -> str:
    """Say what the optimizers hold and do not move."""
    return f"does not train {_names([*outcome.still.values()])}" if outcome.still else ""


def _unused(tried: Tried) -> str:
    """Say which values it leaves that nothing reads."""
    return f"leaves {listed([*tried.unread])} unused" if tried.unread else ""


def _names(parameters: Sequence[str]) -> str:
    if not all(parameters) or len(parameters) > _NAMED:
        return counted(len(parameters), "parameter")
    return listed([*parameters])


def _verdict(found: Tried) -> str:
    """Say how good the change is that is shown below, with what is still found."""
    after, beside = found.outcome, "What is found beside that was not touched, and may be meant:"
    if not found.does:
        if after.failed:
            return "This change is not enough: that error is gone, but another one comes, for which no change helped:"
        return "Do not use this change as it is: the program runs with it, but this is wrong then:"
    if but := [*filter(None, (_untrained(after), _unused(found)))]:
        told = f"With this change it runs, but {' and '.join(but)}. Use it only if that is meant"
        return f"{told}:" if found.is_clean else f"{told}. {beside}"
    if not found.is_clean:
        return f"Use this change: it mends the error. {beside}"
    if after.status is None:
        time = f"when its time was over, after {after.seconds:.0f} s"
        return f"With this change it still ran {time}, and nothing was found until then:"
    return "With this change it runs, and nothing is found in it:"


def _shown(found: Tried, before: Mapping[str, str], words: Sequence[str], write: bool, way: int) -> int:
    option = ["--way", str(way)] if way > 1 else []
    left = _asked(found.outcome)
    say("", _verdict(found), *(f"  {each.code} at {each.at}: {each.title}" for each in left), "")
    _put("".join(_diff(file, before[file], text) for file, text in found.texts.items()))
    if not write and found.does:
        say("", f"To write it into your files: {shlex.join(['backsight', 'fix', '--write', *option, *words])}")
    elif write and not found.does:
        say("", "Nothing is written, as that may not be the whole of it.")
    elif changed := [os.path.relpath(file) for file, text in before.items() if write and read(file) != text]:
        say("", f"Nothing is written, as {listed(changed)} was changed meanwhile. The change is above.")
        return 1
    elif write:
        for file, text in found.texts.items():
            _write(file, text)
            say(f"backsight: written: {os.path.relpath(file)}")
    return 0 if found.does else 1


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
