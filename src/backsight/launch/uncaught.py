"""What the interpreter does with an exception that nobody caught, done from inside the process."""

import sys
from types import TracebackType
from typing import NoReturn


def report(error: BaseException) -> None:
    """Print an uncaught exception as the interpreter would, through the program's own `sys.excepthook`.

    Called outside any `except` block, so that the hook finds `sys.exc_info()` empty and what it raises has no
    context, both as under plain Python. Raises the hook's `SystemExit`, which then decides the exit status.

    Source: CPython, Python/pythonrun.c, `_PyErr_PrintEx`.
    """
    _remember(error)
    hook = getattr(sys, "excepthook", sys.__excepthook__)
    try:
        hook(type(error), error, traceback_of(error))
        return
    except SystemExit:
        raise
    except BaseException as raised:
        failure = raised
    trace = failure.__traceback__.tb_next if failure.__traceback__ else None  # without the frame of this function
    _write("Error in sys.excepthook:\n")
    sys.__excepthook__(type(failure), BaseException.with_traceback(failure, trace), trace)
    _write("\nOriginal exception was:\n")
    sys.__excepthook__(type(error), error, traceback_of(error))


def die_of_interrupt(error: BaseException) -> NoReturn:
    """Leave the process by SIGINT, as Python does after a `KeyboardInterrupt` that was uncaught and is now reported.

    The signal has to come after threads, `atexit` callbacks and open files were finished, which only the interpreter
    can do (Modules/main.c, `exit_sigint`), and it does so only for an exception that reaches it. So one is raised;
    the hook that would print it once more instead restores the program's own, before any `atexit` callback runs.
    """
    hook = getattr(sys, "excepthook", sys.__excepthook__)

    def already_reported(*_: object) -> None:
        sys.excepthook = hook
        _remember(error)

    sys.excepthook = already_reported
    raise KeyboardInterrupt


def handled_by(leaving: SystemExit) -> BaseException | None:
    """Return the error that a program was handling as it left with a failure; None if there was none.

    So leaves what catches everything, prints it its own way and calls `sys.exit(1)`, as Hydra and many a `main()` do.
    """
    if leaving.code is None or (type(leaving.code) in (int, bool) and leaving.code == 0):
        return None
    error = leaving.__cause__
    if error is None and not leaving.__suppress_context__:
        error = leaving.__context__
    return error if isinstance(error, Exception) else None


def traceback_of(error: BaseException) -> TracebackType | None:
    """Return the traceback that Python itself keeps, past a class of the program's that answers for it."""
    found: TracebackType | None = vars(BaseException)["__traceback__"].__get__(error)
    return found


def _remember(error: BaseException) -> None:
    """Leave the exception where `pdb.pm()` and other post-mortem tools look for it."""
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, traceback_of(error)
    if sys.version_info >= (3, 12):
        sys.last_exc = error


def _write(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)
