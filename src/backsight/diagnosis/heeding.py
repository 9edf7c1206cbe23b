"""`Heeding`: explains PyTorch's warnings about autograd as they are given."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

from backsight.diagnosis.finding import Finding
from backsight.naming.roots import is_ours, is_user, ours
from backsight.story.failure import message_of
from backsight.tracing.callers import CALL_NAME

_MOST = 10_000
"""Different warnings and places that are looked at."""


class Heeding:
    """Calls `tell` with the explanation of each autograd warning that is shown, once for each place, until `remove`.

    ```python
    heeding = Heeding(print)
    hidden.grad                 # UserWarning: The .grad attribute of a Tensor that is not a leaf ...; and what it means
    heeding.remove()
    ```

    Only warnings that the program's filters let through are explained, after they were shown as ever: this stands in
    front of `warnings.showwarning`, which Python has for the purpose, and makes way as soon as somebody else does.
    """

    def __init__(self, tell: Callable[[Finding], None]) -> None:
        self._tell = tell
        self.told: set[tuple[str, str | None]] = set()
        """The code and the place of what was explained."""
        self._findings: list[Finding] = []
        self._seen: set[tuple[str, str, int]] = set()
        self._before: Callable[..., None] = warnings.showwarning
        self._ours = self._show
        warnings.showwarning = self._ours

    def shortened(self, finding: Finding) -> Finding:
        """Return the explanation of an error without what a warning has said of the same statement, but for the fix."""
        alike = (each for each in reversed(self._findings) if self._is_same(each, finding))
        before = next(alike, None)
        if before is None:
            return finding
        what = finding.title.partition(":")[0].rstrip(".")
        said = f"{what}: the warning {before.code} above says why."
        source = before.source or finding.source  # which the evidence has: not a line of which nothing is said
        return replace(
            finding, title=said, evidence=finding.evidence[-1:], fix=before.fix or finding.fix, source=source
        )

    def has_said(self, finding: Finding) -> bool:
        """Whether a warning has named the statement that a finding of an audit blames for the same."""
        return any(self._is_same(each, finding) for each in self._findings)

    def _is_same(self, said: Finding, finding: Finding) -> bool:
        if (said.title, said.evidence, said.fix) == (finding.title, finding.evidence, finding.fix):
            return True
        return said.severity != "note" and said.source is not None and said.source == finding.source

    def remove(self) -> None:
        """Step back, unless another has taken the place since: then its owner restores it."""
        if warnings.showwarning is self._ours:
            warnings.showwarning = self._before

    def _is_old(self, message: Warning, frame: FrameType | None) -> bool:
        """Whether this line of the program has had this warning before: then nothing more is looked at."""
        while frame is not None and not is_user(frame):
            frame = frame.f_back
        key = message_of(message), frame.f_code.co_filename if frame else "", frame.f_lineno if frame else 0
        if key in self._seen or len(self._seen) >= _MOST:
            return True
        self._seen.add(key)
        return False

    def _show(self, message: Any, *given: Any, **named: Any) -> None:
        _hand_on(self._before, sys._getframe(1), _as_without_us(message), *given, **named)
        if not issubclass(type(message), Warning):  # a text, from who calls showwarning() by hand
            return
        try:
            if self._is_old(message, sys._getframe(1)):
                return
            from backsight.diagnosis.explained import (
                explained_warning,  # all explanations: no run needs them from its start
            )

            finding = explained_warning(message, sys._getframe(1))
            if finding is not None and (finding.code, finding.source) not in self.told:
                self.told.add((finding.code, finding.source))
                self._findings.append(finding)
                self._tell(finding)
        except BaseException as failure:  # the user's program goes on, whatever is wrong with us
            ours(failure)


def _hand_on(show: Callable[..., None], caller: FrameType, *given: Any, **named: Any) -> None:
    """Have a warning shown as it would be without us.

    Of a ResourceWarning Python's own way also says where the object was made (`-X tracemalloc`, `-X dev`), which is no
    argument of `showwarning`: only the function that calls it has it (`_showwarnmsg`, in warnings.py).
    """
    whole = caller.f_locals.get("msg") if caller.f_globals is vars(warnings) else None
    implemented = getattr(warnings, "_showwarnmsg_impl", None)
    if whole is not None and implemented is not None and show is getattr(warnings, "_showwarning_orig", None):
        whole.message = given[0]
        implemented(whole)
    else:
        show(*given, **named)


_FRAME = re.compile(r'  File "([^"\n]*)", line \d+, in (.*)\n(?:    .*\n)*')


def _as_without_us(message: Any) -> Any:
    """The warning of anomaly mode, which has a stack in its text, without the functions that run and watch the program;
    any other as it is."""
    text = message_of(message) if type(message) is UserWarning else ""
    if "Traceback of forward call that caused the error" not in text:
        return message
    every = [*_FRAME.finditer(text)]
    started = max((k + 1 for k, each in enumerate(every) if _starts(each[1])), default=0)
    gone = [each for k, each in enumerate(every) if k < started or is_ours(each[1]) or each[2] == CALL_NAME]
    for each in reversed(gone):
        text = text[: each.start()] + text[each.end() :]
    return UserWarning(text) if gone else message


def _starts(file: str) -> bool:
    """Whether a file is what begins a program: all further out is how backsight itself was started."""
    return is_ours(file) and file.replace("\\", "/").endswith("/launch/program.py")
