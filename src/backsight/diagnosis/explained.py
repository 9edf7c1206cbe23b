"""One error or warning, explained: the entry that knows it, and the finding; whatever of ours fails on the way."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from backsight.diagnosis.errors import Known, known
from backsight.diagnosis.evidence.elsewhere import Elsewhere, elsewhere
from backsight.diagnosis.finding import UNKNOWN, Finding
from backsight.diagnosis.refusal import refused
from backsight.diagnosis.wording import shown
from backsight.naming import standstill
from backsight.naming.plain import namespace
from backsight.story.failure import Failure, failure_at, failure_of, failure_within, message_of, of_error
from backsight.tape import no_torch_function


def explained_error(error: BaseException) -> Finding | None:
    """Return what is to be said of an exception; None if it is not known."""
    found = culprit(error)
    if found is None:
        return _refused(error)
    first, entry = found
    if (other := elsewhere(first)) is not None:
        return _told(first, entry, other)
    finding = explained_failure(failure_of(first), entry)
    if of_error(first, "__traceback__") is None:
        said = "The exception has no traceback, so this is based on its message alone."
        return replace(finding, evidence=(*finding.evidence, said), exact=False)
    return finding


def explanation(error: BaseException) -> Finding:
    """Return the finding of any error: one with the code BS200 if it is not known."""
    return explained_error(error) or unknown(error)


def ask_for(finding: Finding) -> None:
    """Note that the program itself has called `explain` on an error, so that it tells of it."""
    _asked_for.add(_kind(finding))


def is_asked_for(finding: Finding) -> bool:
    """Whether the program has called `explain` on such an error."""
    return _kind(finding) in _asked_for


def _kind(finding: Finding) -> tuple[str, str | None, str]:
    return finding.code, finding.source, finding.title


_asked_for: set[tuple[str, str | None, str]] = set()


def _refused(error: BaseException) -> Finding | None:
    """Return what is to be said of an error of PyTorch's that no entry knows, or of one that was raised from it."""
    try:
        with no_torch_function(), standstill():
            every = [error, of_error(error, "__cause__")]
            return next((found for each in every if each is not None and (found := refused(each)) is not None), None)
    except Exception:  # ours: nothing is said, as of an error that is not PyTorch's
        return None


def _told(error: BaseException, entry: Known, other: Elsewhere) -> Finding:
    """Explain an error of which there is only the text: its frames here are those of who passed it on."""
    place = other.place
    finding = explained_failure(Failure(error, message_of(error), (), (), told=place), entry)
    raised = (shown(place, f"raised the error, {other.where}."),) if place else ()
    said = f"(Inferred from the error message: it was raised {other.where}, whose variables are not visible from here.)"
    source = finding.source or (str(place) if place else None)
    return replace(finding, evidence=(*raised, *finding.evidence, said), source=source, exact=False)


def raised_elsewhere(error: BaseException) -> Elsewhere | None:
    """Return where a known error was raised that another process has handed on; one sent as it is has no traceback."""
    found = culprit(error)
    if found is not None and of_error(found[0], "__traceback__") is None:
        return Elsewhere("in another process", None, message_of(found[0]))
    other = elsewhere(found[0]) if found is not None else None
    return other if other is not None and other.text else None


def explained_warning(warning: Warning, frame: FrameType) -> Finding | None:
    """Return what is to be said of a warning that is being given in `frame`; None if it is not known."""
    entry = known(message_of(warning), warning)
    return explained_failure(failure_at(warning, frame), entry[0]) if entry else None


@dataclass(frozen=True, eq=False)
class Within:
    """A known error that passes a call into PyTorch: the failure, and the entry that knows it. Holds frames."""

    failure: Failure
    entry: Known

    @property
    def code(self) -> str:
        return self.entry.code


def known_within(error: BaseException, frame: FrameType) -> Within | None:
    """Return a known error as it passes a call that `frame` has made; None if it is not known."""
    entry = known(message_of(error), error)
    return Within(failure_within(error, frame), entry[0]) if entry else None


def explained_within(raised: Within) -> Finding:
    """Return what is to be said of a known error that passes a call."""
    return explained_failure(raised.failure, raised.entry)


def unknown(error: BaseException) -> Finding:
    """Return what is to be said of an exception that is not known."""
    name = type.__dict__["__qualname__"].__get__(type(error))
    return Finding(UNKNOWN, "note", f"This {name} is not one of the autograd errors that backsight explains.")


def culprit(error: BaseException) -> tuple[BaseException, Known] | None:
    """Return the known error to explain: of one that was raised again under another name, the first.

    An error that was raised while another was handled is a failure of its own, unless it repeats the other's text or
    names it as its cause.
    """
    found: tuple[BaseException, Known] | None = None
    text = ""
    for each, is_cause in _chain(error):
        message = message_of(each)
        entry = known(message, each)
        if entry and (found is None or ((is_cause or message in text) and _shows_user(each))):
            found, text = (each, entry[0]), message
    return found


def code_of(message: str) -> str | None:
    """Return the code of the entry that knows a message, of which there is no more than the text."""
    found = known(message, RuntimeError(message))
    return found[0].code if found else None


def messages_behind(error: BaseException) -> Iterator[str]:
    """Yield the texts of an error and of those behind it."""
    return (message_of(each) for each, _ in _chain(error))


def where(ours: BaseException) -> str:
    """Return the function in which an exception of ours was raised."""
    trace = ours.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}" if trace else "backsight"


def _chain(error: BaseException) -> Iterator[tuple[BaseException, bool]]:
    """Yield `error` and the exceptions behind it, each with whether it was named as a cause; groups are opened."""
    stack, seen = [(error, False)], {id(error)}
    for each, is_cause in stack:  # grows as we go
        yield each, is_cause
        behind = [(of_error(each, "__cause__"), True)]
        if not vars(BaseException)["__suppress_context__"].__get__(each):
            behind.append((of_error(each, "__context__"), False))
        behind += [(inner, True) for inner in _grouped(each)]
        for exception, cause in behind:
            if exception is not None and id(exception) not in seen:
                seen.add(id(exception))
                stack.append((exception, cause))


def _grouped(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions of a group, and of what is made like one."""
    group: Any = getattr(builtins, "BaseExceptionGroup", None)  # from Python 3.11 on
    if group is not None and issubclass(type(error), group):
        inside = vars(group)["exceptions"].__get__(error)
    else:
        held = namespace(error) or {}
        inside = held.get("exceptions", held.get("_exceptions"))
    if type(inside) in (tuple, list):
        yield from (inner for inner in inside if isinstance(inner, BaseException))


def _shows_user(error: BaseException) -> bool:
    """Whether the traceback of an error still leads through the user's code: one that a library caught may not."""
    return bool(failure_of(error).users)


def explained_failure(failure: Failure, entry: Known) -> Finding:
    """Return what is to be said of a failure that an entry knows."""
    match = entry.pattern.search(failure.message)
    assert match is not None  # how `entry` was chosen
    try:
        with no_torch_function(), standstill():
            found = entry.explain(failure, match)
            severity = "note" if found.severity == "note" else entry.severity
            return replace(found, code=entry.code, severity=severity)
    except Exception as ours:
        return Finding(
            entry.code,
            "error",
            "".join(each for each in failure.message.partition("\n")[0][:200] if each.isprintable()),
            (f"backsight could not analyze it further: {type(ours).__name__} in {where(ours)}.",),
            source=failure.source,
            exact=False,
        )
