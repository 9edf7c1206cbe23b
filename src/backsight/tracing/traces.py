"""Tracebacks without the frames that a mode has put between the program and PyTorch."""

from __future__ import annotations

from types import TracebackType

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
            behind += [each.__cause__, each.__context__]


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
    return code.co_name == CALL_NAME or ("tracing" in code.co_filename and is_ours(code.co_filename))
