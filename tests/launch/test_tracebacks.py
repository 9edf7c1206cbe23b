"""What python says about a failed program is byte for byte what it says without the launcher."""

import os
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sharded import examples

pytestmark = pytest.mark.process

CHAINED = """
def inner():
    raise KeyError("key")
def outer():
    try:
        inner()
    except KeyError as error:
        raise ValueError("value") from error
try:
    outer()
except ValueError:
    len(None)
"""
GROUP = """
def fail(number):
    raise ValueError(number)
errors = []
for number in range(3):
    try:
        fail(number)
    except ValueError as error:
        errors.append(error)
raise ExceptionGroup("several", errors)
"""
NOTED = """
error = RuntimeError("with\\nlines")
error.add_note("a note")
raise error
"""
ASSIGNED_TRACEBACK = """
class Odd(Exception):
    def with_traceback(self, trace): raise TypeError("never called")
    def __setattr__(self, name, value): raise TypeError("never called")
raise Odd("odd")
"""


@pytest.mark.parametrize(
    "source",
    [
        "1 / 0",
        "def f(x):\n    return x[0][1]\n\nf(3)",
        CHAINED,
        pytest.param(GROUP, marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with 3.11")),
        pytest.param(NOTED, marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="notes came with 3.11")),
        ASSIGNED_TRACEBACK,
        "import no_such_module",
        "import jsn",
        "number = 1\nnumbr",
        "raise RuntimeError('context') from None",
        "exec('1 +')",
        "compile('x = (', 'other.py', 'exec')",
        "assert 1 == 2, 'é ü 漢'",
        "raise UnicodeDecodeError('utf-8', b'x', 0, 1, 'reason')",
        "class Silent(Exception):\n    def __str__(self): raise ValueError\nraise Silent",
        "error = ValueError('shared')\nerror.__context__ = error2 = KeyError()\nraise error",
    ],
)
def test_uncaught_error_reads_as_under_python(same, source):
    ended = same(source)
    assert ended.status == 1
    assert "backsight" not in ended.err


@pytest.mark.parametrize(
    "source",
    [
        b"x = (1,\n",
        b"def f(:\n    pass\n",
        b"if True:\nprint(1)",
        b"print 'hello'",
        b"x = 'never closed",
        b"x = '''never closed\nagain\n",
        b"x = 1\n\ty = 2\n",
        b"return 1",
        b"from __future__ import no_such_feature",
        b"x is 1\ny = '\\d'\nz = )\n",
        b"x = '\xff'\n",
        b"# coding: ascii\nx = '\xc3\xa9'\n",
        b"# coding: no-such-coding\nx = 1\n",
        b"\xef\xbb\xbf# coding: latin-1\nx = 1\n",
        b"x = (\ny = '\0'\n",
        b"x = 1 \xc2\xa0+ 2\n",
        b"(" * 300 + b")" * 300,
    ],
)
def test_script_that_does_not_compile_reads_as_under_python(same, source):
    ended = same(source)
    assert (ended.status, ended.out) == (1, "")


PIECES = [b"x = 1", b"\n", b"    ", b"\t", b"(", b")", b"'", b'"""', b"\\", b"\\d", b"\0", b"\xff", b"\xc3\xa9"]
PIECES += [b"\xef\xbb\xbf", b"# coding: latin-1\n", b"# coding: utf-16\n", b"if x:", b"print(x)", b"raise ", b"1 / 0"]
PIECES += [b"f'{x}'", b"x is 1", b";"]


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=8))
def test_any_script_at_all_ends_as_under_python(same, pieces):
    same(b"".join(pieces))


def test_script_that_does_not_compile_keeps_the_flags_of_the_interpreter(same):
    ended = same("x is 1\ny = (", flags=["-W", "error", "-X", "dev"])
    assert ended.status == 1


@pytest.mark.parametrize("name", ["nothing.py", "folder/nothing.py", "a'b\".py", "script.py/x.py", "loop.py"])
def test_script_that_cannot_be_opened(bench, name):
    bench.write("script.py", "")
    os.symlink("loop.py", bench.folder / "loop.py")
    ended = bench.same(name)
    assert ended.status == 2 and "can't open file" in ended.err


def test_script_that_was_mistyped_gets_the_one_that_was_meant(bench):
    bench.write("train.py", "")
    ended = bench.launched("trian.py")
    assert ended.status == 2 and ended.err == "backsight: there is no file trian.py; did you mean 'train.py'?\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_script_without_read_permission(bench):
    bench.write("script.py", "print(1)").chmod(0)
    ended = bench.same("script.py")
    assert ended.status == 2 and "[Errno 13]" in ended.err


@pytest.mark.parametrize(
    "source",
    [
        b"# coding: latin-1\nprint(ascii('\xe9'))",
        b"\xef\xbb\xbfprint(ascii('\xc3\xa9'))",
        b"print(1)\r\nprint(2)\r\n",
        b"#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nprint(__doc__)",
    ],
)
def test_script_in_another_coding_runs(same, source):
    assert same(source).status == 0


def test_warnings_name_the_file_of_the_program(same):
    ended = same("""
import warnings
def old():
    warnings.warn("gone soon", DeprecationWarning, stacklevel=2)
old()
warnings.warn("look out")
x = 1
print(x is 1)
""")
    assert ended.err.count("script.py:") == 3


def test_warning_about_the_source_is_given_once_and_can_be_an_error(same):
    assert same("x = '\\d'", flags=["-W", "always"]).err.count("invalid escape") == 1
    assert same("x = '\\d'", flags=["-W", "error"]).status == 1


class TestHookOfTheProgram:
    def test_is_called_instead_of_pythons(self, same):
        ended = same("""
import sys
sys.excepthook = lambda kind, error, trace: print(kind, error, trace.tb_frame.f_code.co_name, sys.exc_info())
1 / 0
""")
        assert ended.err == "" and "<module> (None, None, None)" in ended.out

    def test_decides_the_status_when_it_exits(self, same):
        assert same("import sys\nsys.excepthook = lambda *error: sys.exit(9)\n1 / 0").status == 9

    def test_that_fails_itself_is_shown_with_the_original(self, same):
        ended = same("import sys\ndef hook(kind, error, trace): return undefined\nsys.excepthook = hook\n1 / 0")
        assert ended.status == 1
        assert ended.err.startswith("Error in sys.excepthook:\n") and "Original exception was:\n" in ended.err

    def test_may_be_no_function_at_all(self, same):
        assert same("import sys\nsys.excepthook = None\n1 / 0").status == 1

    def test_of_threads_is_the_programs(self, same):
        ended = same("""
import threading
threading.excepthook = lambda failed: print("hook", failed.exc_type)
threading.Thread(target=lambda: 1 / 0).start()
""")
        assert ended.out == "hook <class 'ZeroDivisionError'>\n"


def test_last_exception_is_left_for_post_mortem_tools(same):
    ended = same("""
import atexit, sys
def show():
    print(sys.last_type, sys.last_value, sys.last_traceback.tb_frame.f_code.co_name, sys.last_traceback.tb_next)
    print(getattr(sys, "last_exc", None))
atexit.register(show)
1 / 0
""")
    assert ended.out.startswith("<class 'ZeroDivisionError'> division by zero <module> None")


def test_module_shows_the_frames_that_python_shows(bench):
    bench.write("package/__init__.py", "")
    bench.write("package/work.py", "from package import other\nother.fail()")
    bench.write("package/other.py", "def fail(): 1 / 0")
    assert bench.same("-m", "package.work").status == 1


@pytest.mark.parametrize("name", ["nothing", "package", "package.nothing", "broken", "failing", "script.py", "..x"])
def test_module_that_cannot_be_run(bench, name):
    bench.write("package/__init__.py", "")
    bench.write("broken.py", "x = (")
    bench.write("failing/__init__.py", "1 / 0")
    bench.write("failing/__main__.py", "")
    bench.write("script.py", "")
    assert bench.same("-m", name).status == 1
