"""`explain`: what an autograd error means in this program, read from its traceback after the fact."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType

from backsight.diagnosis.errors import Known, known
from backsight.diagnosis.evidence.failure import failure_of, message_of
from backsight.diagnosis.finding import UNKNOWN, Finding
from backsight.tape import no_torch_function


def explain(error: BaseException | None = None) -> Finding:
    """Say which variable an autograd error is about, which line caused it, and what to do.

    ```python
    try:
        loss.backward()
    except RuntimeError as error:
        print(backsight.explain(error))
    ```

    Only the exception's traceback and the source text are read: nothing is patched, run again or kept alive. Of a
    chain of exceptions the autograd error that started it is explained.

    Args:
        error: the exception; the one being handled, or the last one that nobody caught, if not given.

    Returns:
        A `Finding`. For an exception that is not known, one with the code BS200 that says so.

    Raises:
        TypeError: if `error` is not an exception.
        ValueError: if none is given and there is none.
    """
    if error is None:
        error = _at_hand()
    if not isinstance(error, BaseException):
        raise TypeError(f"explain() expects an exception, not {type(error).__name__}: pass the one that was caught.")
    found = _culprit(error)
    if found is None:
        return _unknown(error)
    culprit, entry = found
    finding = _explained(culprit, entry)
    if culprit.__traceback__ is None:
        said = "The exception has no traceback, so this rests on its text alone."
        return replace(finding, evidence=(*finding.evidence, said), exact=False)
    return finding


class explaining:
    """A context manager that adds an explanation to any autograd error that passes, and lets it go on.

    ```python
    with backsight.explaining():
        train()                  # an autograd error still raises, with its explanation below the traceback
    ```

    The explanation is a note (`BaseException.add_note`), which Python 3.11 and later print; on 3.10 it is only in the
    exception's `__notes__`. Other exceptions pass untouched.
    """

    def __enter__(self) -> explaining:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        try:
            if _culprit(error) is not None and not _is_explained(error):
                _add_note(error, f"{_HEAD}{explain(error)}")
        except Exception as ours:  # the user's own error must pass, whatever is wrong with us
            _add_note(error, f"\nbacksight could not explain this error: {type(ours).__name__} in {_where(ours)}")


_HEAD = "\nbacksight: "


def _is_explained(error: BaseException) -> bool:
    """Whether an `explaining` within this one has added its note already."""
    notes = object.__getattribute__(error, "__dict__").get("__notes__", ())
    return issubclass(type(notes), list) and any(type(note) is str and note.startswith(_HEAD) for note in notes)


def _at_hand() -> BaseException:
    """Return the exception being handled, or the last that nobody caught."""
    error = sys.exc_info()[1] or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is None:
        raise ValueError("explain() was given no exception, and none is being handled: pass the one that was caught.")
    return error


def _culprit(error: BaseException) -> tuple[BaseException, Known] | None:
    """Return the known error to explain: of one that was raised again under another name, the first.

    An error that was raised while another was handled is a failure of its own, unless it repeats the other's text or
    names it as its cause.
    """
    found: tuple[BaseException, Known] | None = None
    text = ""
    for each, is_cause in _chain(error):
        message = message_of(each)
        entry = known(message)
        if entry and (found is None or ((is_cause or message in text) and _shows_user(each))):
            found, text = (each, entry[0]), message
    return found


def _chain(error: BaseException) -> Iterator[tuple[BaseException, bool]]:
    """Yield `error` and the exceptions behind it, each with whether it was named as a cause; groups are opened."""
    stack, seen = [(error, False)], {id(error)}
    for each, is_cause in stack:  # grows as we go
        yield each, is_cause
        behind = [(each.__cause__, True)]
        if not each.__suppress_context__:
            behind.append((each.__context__, False))
        behind += [(inner, True) for inner in getattr(each, "exceptions", ()) if isinstance(inner, BaseException)]
        for exception, cause in behind:
            if exception is not None and id(exception) not in seen:
                seen.add(id(exception))
                stack.append((exception, cause))


def _shows_user(error: BaseException) -> bool:
    """Whether the traceback of an error still leads through the user's code: one that a library caught may not."""
    return bool(failure_of(error).users)


def _explained(error: BaseException, entry: Known) -> Finding:
    failure = failure_of(error)
    match = entry.pattern.search(failure.message)
    assert match is not None  # how `entry` was chosen
    try:
        with no_torch_function():
            return entry.explain(failure, match)
    except Exception as ours:
        return Finding(
            entry.code,
            "error",
            "".join(each for each in failure.message.partition("\n")[0][:200] if each.isprintable()),
            (f"backsight could not look closer: {type(ours).__name__} in {_where(ours)}.",),
            source=failure.source,
            exact=False,
        )


def _unknown(error: BaseException) -> Finding:
    name = type.__dict__["__qualname__"].__get__(type(error))
    return Finding(UNKNOWN, "note", f"This {name} is none of the autograd errors that backsight can explain.")


def _where(ours: BaseException) -> str:
    """Return the function in which an exception of ours was raised."""
    trace = ours.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}" if trace else "backsight"


def _add_note(error: BaseException, text: str) -> None:
    """Attach `text` to an exception; past an `add_note` or `__notes__` that a class of the user's may override."""
    if sys.version_info >= (3, 11):
        BaseException.add_note(error, text)
    else:
        notes = error.__dict__.setdefault("__notes__", [])
        notes.append(text)
