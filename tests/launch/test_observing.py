"""The observer is called at the right moments and can never change the outcome."""

import pytest

pytestmark = pytest.mark.process

BROKEN = "import sys\nprint('out')\ndef work():\n    held = 'value'\n    1 / 0\nwork()"


def notes(ended) -> list[str]:
    return [line for line in ended.err.splitlines() if line.startswith("backsight:")]


def rest(ended) -> str:
    return "".join(line for line in ended.err.splitlines(True) if not line.startswith("backsight:"))


def test_observer_of_a_healthy_program_hears_of_start_and_finish(bench):
    bench.write("script.py", "kept = 'whole'")
    assert notes(bench.launched("script.py", "a", observer="Speaking")) == [
        "backsight: start ['a']",
        "backsight: finish whole",
    ]


def test_observer_of_a_failed_program_hears_of_the_error_after_the_traceback(bench):
    bench.write("script.py", BROKEN)
    ended = bench.launched("script.py", observer="Speaking")
    first, *_, error, finish = ended.err.splitlines()
    assert first == "backsight: start []"
    assert error == "backsight: error ZeroDivisionError value"
    assert finish == "backsight: finish None"
    assert rest(ended) == bench.python("script.py").err


def test_exit_is_no_error(bench):
    bench.write("script.py", "import sys; sys.exit('bye')")
    ended = bench.launched("script.py", observer="Speaking")
    assert ended.err.splitlines() == ["backsight: start []", "bye", "backsight: finish None"]


def test_interrupt_is_told_once(bench):
    bench.write("script.py", "raise KeyboardInterrupt")
    ended = bench.launched("script.py", observer="Speaking", killed=True)
    assert notes(ended)[1:] == ["backsight: error KeyboardInterrupt None", "backsight: finish None"]


def test_error_is_told_although_the_hook_of_the_program_exits(bench):
    bench.write("script.py", "import sys\nsys.excepthook = lambda *error: sys.exit(9)\n1 / 0")
    ended = bench.launched("script.py", observer="Speaking")
    assert ended.status == 9 and "backsight: error ZeroDivisionError None" in notes(ended)


def test_finish_comes_after_threads_and_callbacks(bench):
    bench.write(
        "script.py",
        """
import atexit, sys, threading, time
def say(text): print(text, file=sys.stderr)
def work(): time.sleep(0.2); say("thread ended")
atexit.register(say, "at exit")
threading.Thread(target=work).start()
kept = "whole"
""",
    )
    ended = bench.launched("script.py", observer="Speaking")
    assert ended.err.splitlines()[1:] == ["thread ended", "at exit", "backsight: finish whole"]


@pytest.mark.parametrize("ending", ["pass", "sys.exit(5)", "1 / 0"])
def test_fork_of_the_program_is_not_observed(bench, ending):
    bench.write(
        "script.py",
        f"""
import os, sys
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    {ending}
""",
    )
    ended = bench.launched("script.py", observer="Speaking")
    assert notes(ended) == ["backsight: start []", "backsight: finish None"]
    assert rest(ended) == bench.python("script.py").err


@pytest.mark.parametrize("command", [("nothing.py",), ("broken.py",)])
def test_program_that_never_begins_is_not_observed(bench, command):
    bench.write("broken.py", "x = (")
    assert notes(bench.launched(*command, observer="Speaking")) == []


def test_module_is_observed_from_its_package_on(bench):
    bench.write("package/__init__.py", "import sys; print('package', file=sys.stderr)")
    bench.write("package/__main__.py", "")
    ended = bench.launched("-m", "package", observer="Speaking")
    assert ended.err.splitlines() == ["backsight: start []", "package", "backsight: finish None"]


@pytest.mark.parametrize(
    ("observer", "cause"),
    [
        ("FailsAtStart", "RuntimeError: no start"),
        ("FailsAtError", "RuntimeError: no explanation"),
        ("FailsAtFinish", "RuntimeError: no summary"),
        ("ExitsAtFinish", "SystemExit: 77"),
        ("InterruptedAtError", "KeyboardInterrupt"),
        ("FailsUnspeakably", "Unspeakable: <"),
    ],
)
def test_failing_observer_is_told_of_once_and_changes_nothing(bench, observer, cause):
    bench.write("script.py", BROKEN)
    plain, ended = bench.to_the_end.python("script.py"), bench.launched("script.py", observer=observer)
    (note,) = notes(ended)
    assert note.startswith("backsight: stopped observing: ") and cause in note
    assert "driver.py:" in note
    assert (ended.status, ended.out, rest(ended)) == (plain.status, plain.out, plain.err)


def test_failing_observer_leaves_the_streams_it_cannot_write_to(bench):
    bench.write("script.py", "import sys\nsys.stderr = None\nprint('out')")
    ended = bench.launched("script.py", observer="FailsAtFinish")
    assert (ended.status, ended.out, ended.err) == (0, "out\n", "")


def test_interrupt_while_the_observer_starts_is_the_programs(bench):
    bench.write("script.py", "print('never printed')")
    ended = bench.launched("script.py", observer="InterruptedAtStart", killed=True)
    assert (ended.status, ended.out) == (-2, "") and ended.err.endswith("KeyboardInterrupt\n")
