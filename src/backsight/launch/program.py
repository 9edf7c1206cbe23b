"""Run a script or a module in this process as `python` would have run it.

What CPython does in C before and after the program (Modules/main.c, Python/pythonrun.c) is done here in Python, because
the objects and frames of a failed program must stay alive until they have been explained. Three things are left to
Python itself, since nothing else does them exactly:

- a script that cannot be read or compiled is handed to a fresh interpreter: nothing of it has run, and only the
  interpreter's file tokenizer words these errors (Parser/tokenizer.c);
- `SystemExit` leaves `run_script` and `run_module` and reaches the interpreter, which prints its text, cuts its
  status to a byte and honours `python -i` (Python/pythonrun.c, `handle_system_exit`);
- so does `KeyboardInterrupt`, once reported, because the process has to die by SIGINT after it was finalised.

What still differs from plain Python: the stack is a few frames deeper, which recursion limits, `inspect.stack()` and
a `stacklevel` beyond the program can see; `sys.orig_argv` tells how the process was really started; `__file__`
is still there when `atexit` callbacks run.
"""

import atexit
import builtins
import os
import runpy
import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib.machinery import SourceFileLoader
from pkgutil import get_importer
from types import CodeType, ModuleType, TracebackType
from typing import Any

from backsight.launch.observer import Guarded, Observer
from backsight.launch.uncaught import die_of_interrupt, handled_by, report, traceback_of
from backsight.launch.voice import say
from backsight.text.meant import beside

# What C's main() itself calls for `-m`, folders and archives (Modules/main.c, pymain_run_module), with the frames that
# Python's own traceback shows for them. Private, yet unchanged since Python 2.6 because C calls it by this name.
_run_module_as_main: Callable[[str, bool], Any] = runpy._run_module_as_main  # type: ignore[attr-defined]  # not in typeshed


def run_script(path: str, argv: list[str], observer: Observer) -> int:
    """Run a script, or the `__main__.py` of a folder or zip archive, as `python PATH ARGV...` would; return its status.

    ```python
    sys.exit(run_script("train.py", ["--epochs", "3"], observer))
    ```

    Raises:
        SystemExit: the program's own; the caller lets it pass.
        KeyboardInterrupt: to die by SIGINT; the caller lets it pass.
    """
    filename = _absolute(path)
    if get_importer(filename) is not None:
        _become([path, *argv])
        _set_first_path(filename, always=True)
        return _run(partial(_run_module_as_main, "__main__", False), observer)
    code = _compile(filename)
    if code is None:
        return _run_elsewhere(path, argv)
    main = _become([path, *argv])
    main.__loader__ = SourceFileLoader("__main__", filename)
    main.__file__ = filename
    vars(main)["__cached__"] = None
    _set_first_path(os.path.dirname(os.path.realpath(filename)))
    return _run(partial(_execute, code, vars(main)), observer)


def run_module(name: str, argv: list[str], observer: Observer) -> int:
    """Run a module, or a package's `__main__`, as `python -m NAME ARGV...` would; return its status.

    ```python
    sys.exit(run_module("project.train", ["--epochs", "3"], observer))
    ```

    Raises what `run_script` does.
    """
    _become(["-m", *argv])  # runpy puts the file in place of "-m" once it has found it
    _set_first_path(os.getcwd())
    return _run(partial(_run_module_as_main, name, True), observer)


def _run(program: Callable[[], object], observer: Observer) -> int:
    watch = Guarded(observer)
    # Callbacks run last in, first out, after the threads were joined and before any module is torn down (Python/
    # pylifecycle.c, Py_FinalizeEx): registered before the program's own, this one sees everything that it did.
    atexit.register(watch.finish)
    try:
        watch.start()
        program()
        return 0
    except SystemExit as leaving:
        if (handled := handled_by(leaving)) is not None:
            watch.error(handled)
        raise
    except BaseException as caught:
        error = BaseException.with_traceback(caught, _of_program(traceback_of(caught)))
    tidy(error)
    try:
        report(error)
    finally:  # the program's hook may call sys.exit()
        watch.error(error)
    if type(error) is KeyboardInterrupt:  # not a subclass: CPython too compares the type itself
        die_of_interrupt(error)
    return 1


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """Drop the frames of this file, which are outermost."""
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    return trace


def tidy(error: BaseException) -> None:
    """Take out of a traceback the frames that a watch has put between the program and PyTorch."""
    traces = sys.modules.get("backsight.tracing.traces")
    if traces is not None:
        try:
            traces.cleaned(error)
        except Exception:
            pass  # the traceback is then longer than it need be


def _execute(code: CodeType, namespace: dict[str, Any]) -> None:
    try:
        exec(code, namespace)
    finally:  # before any traceback is printed (Python/pythonrun.c, flush_io)
        _flush()


def _absolute(path: str) -> str:
    """The absolute path of a program, not normalised. Source: CPython, Python/fileutils.c, `_Py_abspath`."""
    if path == "." and sys.version_info >= (3, 11):
        return os.getcwd()
    return os.path.join(os.getcwd(), path)


def _flush() -> None:
    for stream in (sys.stderr, sys.stdout):
        try:
            stream.flush()
        except Exception:
            pass  # None, closed or broken: the interpreter reports it when it flushes at the very end


def _become(argv: list[str]) -> ModuleType:
    """Put a fresh `__main__` in place, with what the interpreter gives it at its start, and the arguments."""
    main = ModuleType("__main__")
    if "__annotations__" in vars(sys.modules["__main__"]):  # where this Python gives one, so that a script may read it
        main.__annotations__ = {}
    vars(main)["__builtins__"] = builtins
    sys.modules["__main__"] = main
    sys.argv = argv
    return main


def _set_first_path(entry: str, always: bool = False) -> None:
    """Put the program's entry at the head of `sys.path`, in place of the one that python made for backsight.

    With `-P` or `-I` python adds none, except for a folder or an archive.

    Source: CPython, Modules/main.c, `pymain_run_python`.
    """
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):  # safe_path: Python 3.11
        sys.path[0] = entry
    elif always:
        sys.path.insert(0, entry)


def _compile(filename: str) -> CodeType | None:
    """Compile a script; None when python itself has to say what is wrong with it."""
    loader = SourceFileLoader("__main__", filename)
    try:
        with warnings.catch_warnings(record=True) as found:  # held back: python itself would give them again
            code: CodeType = loader.source_to_code(loader.get_data(filename), filename)
    except Exception:
        return None
    for warning in found:
        _show(warning)
    return code


def _show(warning: warnings.WarningMessage) -> None:
    """Show a warning of the compiler's as the interpreter does, which keeps the blanks at the end of the line.

    With `-W` it has Python do it, which takes them away. Source: CPython, Python/_warnings.c, `show_warning`.
    """
    import linecache  # here, because a program whose compilation warns of nothing should not pay for it

    line = linecache.getline(warning.filename, warning.lineno).rstrip("\r\n")
    if sys.warnoptions or not line.endswith((" ", "\t", "\f")):
        warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
    elif sys.stderr is not None:
        head = f"{warning.filename}:{warning.lineno}: {warning.category.__name__}: {warning.message}"
        sys.stderr.write(f"{head}\n  {line.lstrip()}\n")


def _run_elsewhere(path: str, argv: list[str]) -> int:
    """Give the program to a fresh interpreter with the same flags and name, and return its status.

    Python's own word for a file that is not there says no more than ours, which knows what was meant.
    """
    import subprocess

    if not os.path.exists(path) and (near := beside(path)):
        say(f"backsight: there is no file {path}{near}")
        return 2

    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
    _flush()
    status = subprocess.call([sys.orig_argv[0], *flags, path, *argv], executable=sys.executable)
    return status if status >= 0 else 128 - status  # a shell's way to tell of a signal
