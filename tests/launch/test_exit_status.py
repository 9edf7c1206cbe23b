"""The process ends as under plain python: the same status, the same signal, the same order of last things."""

import signal
import sys

import pytest

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("pass", 0),
        ("", 0),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(None)", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit(True)", 1),
        ("import sys; sys.exit(256)", 0),
        ("import sys; sys.exit(-1)", 255),
        ("import sys; sys.exit('text')", 1),
        ("import sys; sys.exit(('a', 1))", 1),
        ("raise SystemExit", 0),
        ("class Quit(SystemExit): pass\nraise Quit(4)", 4),
        ("class Quit(SystemExit): code = 5\nraise Quit", 5),
        pytest.param(
            "class Text:\n    def __str__(self): raise ValueError\nraise SystemExit(Text())",
            1,
            marks=pytest.mark.skipif(
                sys.version_info >= (3, 12), reason="from 3.12 on, Python leaves this error set, and may print it"
            ),
        ),
        ("import os; os._exit(6)", 6),
        ("1 / 0", 1),
        ("raise BaseException('bare')", 1),
        ("raise GeneratorExit", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'print(1); exit(7)'])", 7),
    ],
)
def test_status_is_pythons(same, ending, status):
    assert same(ending).status == status


def test_text_of_an_exit_goes_to_stderr(same):
    assert same("import sys; sys.exit('disk is full')").err == "disk is full\n"


INTERRUPTED = """
import atexit, signal, threading, time
log = open("log", "w")
log.write("not flushed by the program")
atexit.register(print, "at exit")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread ended"))).start()
print("ready", flush=True)
{end}
"""


@pytest.mark.parametrize("as_module", [False, True])
@pytest.mark.parametrize("end", ["raise KeyboardInterrupt", "signal.raise_signal(signal.SIGINT)"])
def test_interrupt_prints_finishes_and_then_dies_by_sigint(bench, as_module, end):
    bench.write("script.py", INTERRUPTED.format(end=end))
    plain = bench.to_the_end.python("script.py", killed=True)
    (bench.folder / "log").unlink()
    assert bench.launched("script.py", as_module=as_module, killed=True) == plain
    assert plain.status == -signal.SIGINT
    assert plain.out == "ready\nthread ended\nat exit\n"
    assert plain.err.count("Traceback") == 1 and plain.err.endswith("KeyboardInterrupt\n")
    assert (bench.folder / "log").read_text() == "not flushed by the program"


def test_interrupt_from_outside_dies_by_sigint(bench):
    bench.write("script.py", INTERRUPTED.format(end="time.sleep(60)"))
    ended = bench.launched("script.py", interrupted_at="ready")
    assert (ended.status, ended.out) == (-signal.SIGINT, "ready\nthread ended\nat exit\n")
    assert ended.err.count("Traceback") == 1 and ended.err.endswith("KeyboardInterrupt\n")


def test_interrupt_of_a_module_dies_by_sigint(bench):
    bench.write("script.py", "raise KeyboardInterrupt('now')")
    assert bench.same("-m", "script").status == -signal.SIGINT


def test_subclass_of_keyboard_interrupt_is_an_ordinary_error(same):
    assert same("class Stop(KeyboardInterrupt): pass\nraise Stop").status == 1


def test_interrupt_is_shown_once_to_the_hook_of_the_program(same):
    ended = same("""
import atexit, sys
def hook(kind, error, trace):
    print("hook", kind.__name__)
sys.excepthook = hook
atexit.register(lambda: print(sys.excepthook is hook, sys.last_value is caught, sys.last_traceback.tb_next))
caught = KeyboardInterrupt()
raise caught
""")
    assert ended.out == "hook KeyboardInterrupt\nTrue True None\n"


def test_sigterm_from_outside_ends_a_sleeping_program(same):
    ended = same("print('ready', flush=True)\nimport time; time.sleep(60)", interrupted_at="ready", sent=signal.SIGTERM)
    assert ended.status == -signal.SIGTERM


def test_handler_of_the_program_gets_the_signal(same):
    ended = same(
        """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(f"caught {number}"))
print("ready", flush=True)
time.sleep(60)
""",
        interrupted_at="ready",
        sent=signal.SIGTERM,
    )
    assert (ended.status, ended.err) == (1, "caught 15\n")


def test_threads_are_waited_for_and_then_callbacks_run(same):
    ended = same("""
import atexit, threading, time
atexit.register(print, "at exit")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread ended"))).start()
print("main ended")
""")
    assert ended.out == "main ended\nthread ended\nat exit\n"


def test_error_in_a_thread_does_not_change_the_status(same):
    ended = same("import threading\ndef work(): 1 / 0\nthreading.Thread(target=work, name='worker').start()")
    assert ended.status == 0 and "Exception in thread worker" in ended.err


def test_globals_of_the_program_are_torn_down_at_the_same_moment(same):
    ended = same("""
import atexit
class Late:
    def __init__(self, name): self.name = name
    def __del__(self): print("dropped", self.name)
first, second = Late("first"), Late("second")
atexit.register(print, "at exit")
""")
    assert ended.out == "at exit\ndropped first\ndropped second\n"


def test_stdout_that_cannot_be_flushed_gives_pythons_status(same):
    ended = same("import os, sys\nprint('lost')\nos.close(1)")
    assert ended.status == 120 and "Bad file descriptor" in ended.err


@pytest.mark.parametrize("command", [("script.py",), ("-m", "script")])
def test_output_and_traceback_in_one_pipe_keep_their_order(bench, command):
    bench.write("script.py", "import sys\nprint('out')\nsys.stderr.write('err')\n1 / 0")
    assert bench.same(*command, merged=True).status == 1


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("ending", ["pass", "1 / 0", "sys.exit('text')"])
def test_missing_stream_harms_nobody(same, stream, ending):
    same(f"import sys\nsys.{stream} = None\n{ending}")
