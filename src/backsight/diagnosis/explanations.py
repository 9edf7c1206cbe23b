"""`explain`: what an autograd error means in this program, read from its traceback after the fact."""

from __future__ import annotations

import sys
from types import TracebackType

from backsight.diagnosis.explained import ask_for, explained_error, explanation, where
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.heeding import Heeding
from backsight.naming.roots import ours
from backsight.text import inert
from backsight.tracing.around import Function, around


def explain(error: BaseException | None = None) -> Finding:
    """Say which variable an autograd error is about, which line caused it, and what to do.

    ```python
    try:
        loss.backward()
    except RuntimeError as error:
        print(backsight.explain(error))
    ```

    Only the exception's traceback and the source text are read, and the notes of a running `watch`: nothing is patched,
    run again or kept alive. Of a chain of exceptions the autograd error that started it is explained.

    Args:
        error: the exception; the one being handled, or the last one that nobody caught, if not given.

    Returns:
        A `Finding`. For an exception that is not known, one with the code BS200: of PyTorch's errors it shows the line
        and the tensors, of any other it says that it is not known.

    Raises:
        TypeError: if `error` is not an exception.
        ValueError: if none is given and there is none.
    """
    if error is None:
        error = _at_hand()
    if not isinstance(error, BaseException):
        raise TypeError(f"explain() expects an exception, not {type(error).__name__}: pass the one that was caught.")
    finding = explanation(error)
    ask_for(finding)
    return finding


class explaining:
    """A context manager that adds an explanation to any error of PyTorch's that passes, and lets it go on.

    ```python
    with backsight.explaining():
        train()                  # an error of PyTorch's still raises, with its explanation below the traceback

    @backsight.explaining()      # or every call of a function, generator or coroutine
    def train(): ...
    ```

    The explanation is a note (`BaseException.add_note`), which Python 3.11 and later print; on 3.10 it is only in the
    exception's `__notes__`. Other exceptions pass untouched. PyTorch's warnings about autograd are explained on stderr,
    below the warning.

    Attributes:
        findings: what was explained, in order.
    """

    def __init__(self) -> None:
        self.findings: tuple[Finding, ...] = ()
        self._heeding: Heeding | None = None

    def __call__(self, function: Function) -> Function:
        """Return a function that is run in such a context each time."""
        return around(function, type(self))

    def __enter__(self) -> explaining:
        self._heeding = Heeding(self._warned)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._heeding is not None:
            self._heeding.remove()
        if error is None or not issubclass(type(error), Exception):  # an interrupt asks for an end, and for no more
            return
        try:
            finding = None if _is_explained(error) else explained_error(error)
            if finding is None:
                return
            self.findings += (finding,)
            text = f"{_HEAD}{self.findings[-1]}"
        except Exception as failure:  # the user's own error must pass, whatever is wrong with us
            text = f"\nbacksight could not explain this error: {type(failure).__name__} in {where(failure)}"
        try:
            _add_note(error, text)
        except BaseException as failure:  # its class does not let it have one, or answers with code of its own
            ours(failure)
            _say(text.lstrip("\n"))

    def _warned(self, finding: Finding) -> None:
        self.findings += (finding,)
        _say(f"backsight: {finding}")


def _say(text: str) -> None:
    if sys.stderr is not None:  # print(file=None) would write to stdout
        try:
            print(inert(text), file=sys.stderr)
        except (OSError, ValueError):  # closed or broken, and there is no other place to say so
            return


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


def _add_note(error: BaseException, text: str) -> None:
    """Attach `text` to an exception; past an `add_note` or `__notes__` that a class of the user's may override."""
    if sys.version_info >= (3, 11):
        BaseException.add_note(error, text)
    else:
        notes = error.__dict__.setdefault("__notes__", [])
        notes.append(text)
