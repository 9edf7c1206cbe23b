"""Errors that only their text tells of: their frames are in another process, or in what `torch.compile` traced."""

from __future__ import annotations

import re
from dataclasses import dataclass

from backsight.naming.plain import namespace
from backsight.naming.roots import is_library, is_ours
from backsight.source import Place, statement_at
from backsight.source.body import body_around
from backsight.story.failure import message_of, of_error


@dataclass(frozen=True)
class Elsewhere:
    """Where an error was raised: `place` is the innermost line of the user's, None if the text names none."""

    where: str
    place: Place | None
    text: str = ""
    """What the other process has said: the traceback, with the message."""


_LEVEL = re.compile(r'File "([^"\n]+)", line (\d+)')

_HEADS = (
    # torch/_utils.py, ExceptionWrapper: DataLoader's workers, DataParallel's replicas, the thread that pins memory
    re.compile(r"Caught \w+ (in [^\n]*?)\.\nOriginal Traceback \(most recent call last\):\n"),
    # torch/multiprocessing/spawn.py, ProcessRaisedException
    re.compile(r"-- (?P<where>Process \d+) terminated with the following error:\n"),
)

_TRACED = re.compile(r"\nfrom user code:\n")
"""How `torch.compile` says which line it was at (torch/_dynamo/exc.py, augment_exc_message)."""


def elsewhere(error: BaseException) -> Elsewhere | None:
    """Return where an error was raised that has no frames of its own here; None for any other."""
    text = message_of(error)
    for head in _HEADS:
        if match := head.search(text):
            where = match[1] if match[1].startswith("in ") else f"in {match[1][0].lower()}{match[1][1:]}"
            return Elsewhere(where, _innermost(text[match.end() :]), text)
    if match := _TRACED.search(text):
        return Elsewhere("in what torch.compile traced", _innermost(text[match.end() :]))
    told = _remote(of_error(error, "__cause__"))
    return Elsewhere("in a process of the pool", _innermost(told), told) if told else None


def _remote(cause: BaseException | None) -> str:
    """Return the traceback that a process pool sent along (concurrent.futures and multiprocessing do alike)."""
    if cause is None or type(cause).__name__ not in ("_RemoteTraceback", "RemoteTraceback"):
        return ""
    told = (namespace(cause) or {}).get("tb")
    return told if type(told) is str else ""


def _innermost(text: str) -> Place | None:
    """Return the innermost line of the user's that a traceback's text names."""
    for file, number in reversed(_LEVEL.findall(text)):
        if not is_library(file) and not is_ours(file):
            line = int(number)
            body = body_around(file, line)
            statement = statement_at(body, line)
            return body.place(statement) if body and statement else Place(file, line, "")
    return None
