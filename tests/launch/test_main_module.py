"""The program finds itself in ``__main__``, ``sys.argv`` and ``sys.path`` as under plain python."""

import os
import zipfile

import pytest

pytestmark = pytest.mark.process

SELF = """
\"\"\"What the program is.\"\"\"
import sys
print(__name__, __file__, __spec__, __doc__, __package__, __cached__, __annotations__, __debug__)
print(type(__builtins__), type(__loader__), __loader__.name, __loader__.path)
print(list(globals()))
print(sys.modules["__main__"].__dict__ is globals(), sys.argv, sys.path)
"""
PRESENT = """
import sys
print(__name__, __file__, __spec__ and __spec__.name, __package__, __cached__, sys.argv, sys.path, list(globals()))
"""


@pytest.mark.parametrize("path", ["script.py", "./script.py", "folder/../script.py"])
def test_script_finds_itself(bench, path):
    bench.write("script.py", SELF)
    bench.write("folder/other.py", "")
    assert bench.same(path, "--flag", "value", "-m", "", "é").out.startswith("__main__ ")


def test_script_by_absolute_path(bench):
    assert bench.same(str(bench.write("folder/script.py", SELF))).status == 0


def test_script_without_an_extension(bench):
    bench.write("program", SELF)
    assert bench.same("program").status == 0


@pytest.mark.parametrize("depth", [1, 2])
def test_linked_script_imports_beside_the_file_it_links_to(bench, depth):
    bench.write("real/script.py", SELF + "import beside")
    bench.write("real/beside.py", "print('found')")
    os.symlink("real/script.py", bench.folder / "link1.py")
    os.symlink("link1.py", bench.folder / "link2.py")
    assert bench.same(f"link{depth}.py").out.endswith("found\n")


def test_folder_and_archive_with_a_main(bench):
    bench.write("folder/__main__.py", PRESENT + "import beside")
    bench.write("folder/beside.py", "print('found')")
    with zipfile.ZipFile(bench.folder / "archive.zip", "w") as archive:
        archive.write(bench.folder / "folder/__main__.py", "__main__.py")
        archive.write(bench.folder / "folder/beside.py", "beside.py")
    for flags in ([], ["-P"] if "safe_path" in bench.python("-c", "import sys; print(sys.flags)").out else []):
        for path in ("folder", "./folder/", "archive.zip"):
            assert bench.same(path, "argument", flags=flags).out.endswith("found\n")


def test_current_folder_with_a_main(bench):
    bench.write("__main__.py", PRESENT)
    assert bench.same(".").status == 0


def test_folder_without_a_main(bench):
    bench.write("folder/other.py", "")
    assert "can't find '__main__' module" in bench.same("folder").err


def test_error_in_an_archive(bench):
    with zipfile.ZipFile(bench.folder / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", "import sys\n1 / 0")
    assert bench.same("archive.zip").status == 1


def test_module_and_package_by_name(bench):
    bench.write("single.py", PRESENT)
    bench.write("package/__init__.py", "import sys; print('package', sys.argv)")
    bench.write("package/__main__.py", PRESENT + "from . import sibling\nfrom .sibling import here")
    bench.write("package/sibling.py", "here = 1; print('sibling', __name__)")
    bench.write("package/inner.py", PRESENT + "from .sibling import here")
    assert bench.same("-m", "single", "a", "-b").status == 0
    assert bench.same("-m", "package", "a").out.endswith("sibling package.sibling\n")
    assert bench.same("-m", "package.inner").out.endswith("sibling package.sibling\n")


@pytest.mark.parametrize("flags", [[], ["-O"], ["-OO"], ["-X", "dev"], ["-X", "utf8"], ["-B"], ["-s", "-u"]])
def test_flags_of_the_interpreter_hold(bench, flags):
    bench.write("script.py", SELF + "print(sys.flags, sys._xoptions)\nassert None, 'seen'")
    assert bench.same("script.py", flags=flags).status == (0 if flags in (["-O"], ["-OO"]) else 1)


def test_safe_path_adds_no_folder(bench):
    bench.write("script.py", "import sys; print(sys.path, sys.flags)")
    assert bench.same("script.py", env={"PYTHONSAFEPATH": "1"}).status == 0


def test_standard_input_is_the_programs(same):
    assert (
        same("import sys; print(input(), sys.stdin.read())", stdin="first\nsecond\nthird").out
        == "first second\nthird\n"
    )


def test_future_statements_are_the_programs_own(same):
    assert same("def f(x: undefined) -> 1: pass").status == 1
    assert same("from __future__ import annotations\ndef f(x: undefined): pass\nprint(f.__annotations__)").status == 0


def test_names_of_main_can_be_imported_and_inspected(same):
    ended = same("""
import inspect, sys
def function(x):
    return x + 1
from __main__ import function as again
import __main__
print(again is function, __main__.function is function, inspect.getsource(function))
print(inspect.getmodule(function), inspect.getfile(function), function.__module__)
""")
    assert ended.out.startswith("True True def function(x):")


def test_classes_of_main_pickle(same):
    ended = same("""
import pickle
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, get_type_hints
@dataclass
class Point:
    x: "int" = 1
    shared: "ClassVar[int]" = 2
    more: list = field(default_factory=list)
class Pair(NamedTuple):
    a: int
print(pickle.loads(pickle.dumps([Point(3), Pair(4)])), pickle.dumps(Point), get_type_hints(Point))
""")
    assert ended.status == 0


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("command", [("script.py",), ("-m", "script")])
def test_functions_of_main_run_in_other_processes(bench, method, command):
    bench.write(
        "script.py",
        f"""
import multiprocessing, os, sys
def work(number):
    return number * 2, __name__, sys.argv
if __name__ == "__main__":
    with multiprocessing.get_context("{method}").Pool(1) as pool:
        print(pool.map(work, [1, 2]))
    from concurrent.futures import ProcessPoolExecutor
    with ProcessPoolExecutor(1, multiprocessing.get_context("{method}")) as executor:
        print(list(executor.map(work, [3])))
""",
    )
    assert bench.same(*command, "argument").out.startswith("[(2, ")


def test_debugger_stops_in_the_program(same):
    ended = same("held = 42\nbreakpoint()\nprint('after')\n", stdin="p held\nc\n")
    assert "(Pdb) 42" in ended.out and ended.out.endswith("after\n")


def test_quitting_the_debugger(same):
    assert same("breakpoint()\nprint('after')\n", stdin="q\n").status == 1


def test_trace_functions_see_the_lines_of_the_program_only(same):
    ended = same("""
import sys
def trace(frame, event, argument):
    print(frame.f_code.co_filename, event, frame.f_lineno)
    return trace
print(sys.gettrace(), sys.getprofile())
def function():
    return 1
sys.settrace(trace)
function()
sys.settrace(None)
""")
    assert ended.out.startswith("None None")


def test_handlers_of_the_interpreter_are_untouched(same):
    ended = same("""
import faulthandler, signal, sys, threading, warnings
print(faulthandler.is_enabled(), signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
print(sys.excepthook is sys.__excepthook__, sys.unraisablehook is sys.__unraisablehook__, sys.displayhook)
print(threading.excepthook is threading.__excepthook__, threading.current_thread() is threading.main_thread())
print(threading.active_count(), warnings.filters, sys.getrecursionlimit(), sys.exc_info(), sys.breakpointhook)
""")
    assert ended.status == 0


def test_launching_imports_no_torch(bench):
    bench.write("script.py", "import sys; print([name for name in sys.modules if name.partition('.')[0] == 'torch'])")
    assert bench.same("script.py").out == "[]\n"
