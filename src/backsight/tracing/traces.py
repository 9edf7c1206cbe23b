"""Tracebacks without the frames that a mode has put between the program and PyTorch."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any

from backsight.naming.roots import is_ours
from backsight.tracing._torch import HANDLE
from backsight.tracing.callers import CALL_NAME

_MOST = 100


def cleaned(error: BaseException) -> None:
    """Take our frames out of the traceback of `error`, and of those that it was raised from."""
    seen: set[int] = set()
    behind: list[BaseException | None] = [error]
    for each in behind:  # grows as we go
        if each is not None and id(each) not in seen and len(seen) < _MOST:
            seen.add(id(each))
            each.__traceback__ = _without(each.__traceback__)
            _clean_told(each)
            behind += [each.__cause__, each.__context__]


def _clean_told(error: BaseException) -> None:
    """Take our frames out of the traceback that a worker sent along as the text of an error (torch/_utils.py,
    ExceptionWrapper)."""
    given = _ARGS.__get__(error)
    text = given[0] if given else None
    if type(text) is not str or _TOLD not in text:
        return
    head, _, trace = text.partition(_TOLD)
    kept = _FRAME.sub(lambda match: "" if _is_named_ours(match["file"], match["name"]) else match[0], trace)
    if kept != trace:
        _ARGS.__set__(error, (f"{head}{_TOLD}{kept}", *given[1:]))


_ARGS: Any = vars(BaseException)["args"]  # past a class of the program's that answers for it
_TOLD = "Original Traceback (most recent call last):\n"
_FRAME = re.compile(r'^  File "(?P<file>[^"\n]+)", line \d+, in (?P<name>.*)\n(?:    .*\n)*', re.MULTILINE)
"""A frame in the text of a traceback, with its line and the marks below it."""


def _is_named_ours(file: str, name: str) -> bool:
    return name == CALL_NAME or ("tracing" in file and is_ours(file))


def _without(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without our frames, and without the first of two frames of a function that was called again
    from within our own."""
    links: list[TracebackType] = []
    while trace is not None:
        links.append(trace)
        trace = trace.tb_next
    ours = [_is_ours(each) for each in links]
    if not any(ours[:-1]):
        return links[0] if links else None
    kept: list[TracebackType] = []
    for k, each in enumerate(links):
        if ours[k]:
            # F.relu -> handle_torch_function -> ours -> F.relu: the function asked whether a mode is on.
            while kept and kept[-1].tb_frame.f_code is HANDLE:
                kept.pop()
                following = next((link for link, own in zip(links[k:], ours[k:], strict=True) if not own), None)
                if kept and following is not None and following.tb_frame.f_code is kept[-1].tb_frame.f_code:
                    kept.pop()
        else:
            kept.append(each)
    if not kept:
        return links[0]
    for each, following in zip(kept, [*kept[1:], None], strict=True):
        each.tb_next = following
    return kept[0]


def _is_ours(link: TracebackType) -> bool:
    code = link.tb_frame.f_code
    return _is_named_ours(code.co_filename, code.co_name)
