"""`backsight run`: errors that do not end the program by themselves, and those that are no errors of the training."""

import signal

import pytest

TWICE = """
import torch

def work():
    x = torch.ones(3, requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    loss.backward()
"""

CAUGHT = "\nbacksight explains: an error that the program caught\n"

EXPLAINED = "error BS201  loss.backward() ran twice"


def said(ended):
    """What stands on stderr from our heading on."""
    _, heading, after = ended.err.partition("\nbacksight explains")
    return heading + after


def observed(bench, source, *options, **more):
    bench.write("train.py", source)
    return bench.to_the_end.observed(*options, "train.py", **more)


class TestThreads:
    SOURCE = TWICE + "import threading\nt = threading.Thread(target=work, name='trainer')\nt.start()\nt.join()\n"

    @pytest.mark.process
    def test_an_error_that_ends_one_is_explained_below_its_traceback(self, bench):
        ended = observed(bench, self.SOURCE + "print('goes on')")
        assert (ended.status, ended.out) == (0, "goes on\n")
        assert ended.err.startswith("Exception in thread trainer:\nTraceback (most recent call last):\n")
        assert said(ended).startswith("\nbacksight explains (thread trainer)\n")
        assert "train.py:8  loss.backward()" in said(ended)

    def test_a_hook_of_the_programs_own_has_its_way(self, bench):
        own = "import threading\nthreading.excepthook = lambda args: print('mine', args.exc_type.__name__)\n"
        ended = observed(bench, "import torch\n" + own + self.SOURCE, "--quiet")
        assert ended.out == "mine RuntimeError\n"
        assert ended.err.startswith(CAUGHT) and "(thread" not in ended.err

    @pytest.mark.process
    def test_one_that_was_set_before_torch_came_is_called_first(self, bench):
        own = "import threading\nthreading.excepthook = lambda args: print('mine', args.exc_type.__name__)\n"
        ended = observed(bench, own + self.SOURCE)
        assert ended.out == "mine RuntimeError\n" and "(thread trainer)" in said(ended)

    def test_an_error_that_a_pool_hands_on_is_explained_where_it_arrives(self, bench):
        pool = "from concurrent.futures import ThreadPoolExecutor as Pool\nwith Pool() as p: p.submit(work).result()\n"
        ended = observed(bench, TWICE + pool)
        assert ended.status == 1 and "train.py:8  loss.backward()" in said(ended)
        assert ended.err.count("backsight explains") == 1

    def test_an_error_that_is_not_of_autograd_gets_no_comment(self, bench):
        ended = observed(
            bench, "import torch, threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()", "--quiet"
        )
        assert said(ended) == "" and "ZeroDivisionError" in ended.err

    def test_a_thread_that_leaves_has_caught_its_error(self, bench):
        source = TWICE + (
            "import sys, threading\n"
            "def leave():\n    try: work()\n    except RuntimeError: sys.exit(1)\n"
            "threading.Thread(target=leave).start()\n"
        )
        assert observed(bench, source, "--quiet").err.startswith(CAUGHT)

    @pytest.mark.process
    @pytest.mark.parametrize("times", [2, pytest.param(12, marks=pytest.mark.long)])
    @pytest.mark.slow
    def test_a_thread_that_ends_with_the_program_does_not_abort_it(self, bench, times):
        source = TWICE.replace(
            "    loss.backward()\n    loss.backward()\n", "    for _ in range(50): (x * x).sum().backward()\n"
        )
        source += "import threading\nfor _ in range(4): threading.Thread(target=work).start()\n"
        assert [observed(bench, source, "--quiet").status for _ in range(times)] == [0] * times

    def test_the_hook_is_python_s_own_again_at_the_end(self, bench):
        source = (
            "import atexit, threading\n"
            + TWICE
            + "before = threading.excepthook\nthreading.Thread(target=work).start()"
        )
        ended = observed(bench, source, "--quiet")
        assert ended.err.count("backsight explains (thread Thread-1 (work))") == 1

    def test_several_at_once_do_not_mix(self, bench):
        many = "import threading\nfor k in range(8): threading.Thread(target=work, name=f'worker {k}').start()\n"
        ended = observed(bench, TWICE + many, "--quiet")
        blocks = ended.err.split("\nbacksight explains (thread ")[1:]
        assert sorted(block[:8] for block in blocks) == [f"worker {k}" for k in range(8)]
        for block in blocks:
            assert "fix: " in block and block.count("error BS201") == 1


class TestErrorsThatAreCaught:
    def test_one_that_the_script_gets_over_is_marked(self, bench):
        source = TWICE + "try:\n    work()\nexcept RuntimeError:\n    print('goes on')\n"
        ended = observed(bench, source, "--quiet")
        assert (ended.status, ended.out) == (0, "goes on\n")
        assert ended.err.startswith(CAUGHT)

    def test_one_during_which_the_script_leaves_with_a_failure_is_explained(self, bench):
        source = TWICE + (
            "import sys, traceback\ntry:\n    work()\nexcept Exception:\n    traceback.print_exc()\n    sys.exit(3)\n"
        )
        ended = observed(bench, source)
        assert ended.status == bench.python("train.py").status == 3
        assert "train.py:8  loss.backward()" in said(ended)

    @pytest.mark.parametrize("leave", ["sys.exit()", "sys.exit(0)", "sys.exit(False)", "raise SystemExit(3) from None"])
    def test_and_one_that_it_leaves_with_or_hides_too(self, bench, leave):
        source = TWICE + f"import sys\ntry:\n    work()\nexcept Exception:\n    {leave}\n"
        assert observed(bench, source, "--quiet").err.startswith(CAUGHT)

    def test_and_if_it_leaves_later(self, bench):
        source = TWICE + "import sys\ntry:\n    work()\nexcept Exception:\n    pass\nsys.exit('failed')\n"
        ended = observed(bench, source, "--quiet")
        assert ended.status == 1
        assert ended.err.startswith(f"failed\n{CAUGHT}")


class TestInterrupts:
    WAITING = (
        TWICE
        + "import time\ntry:\n    work()\nexcept RuntimeError:\n    print('waits', flush=True)\n    time.sleep(60)\n"
    )

    def test_are_neither_explained_nor_held_up(self, bench):
        bench.write("train.py", self.WAITING)
        ended = bench.observed("--quiet", "train.py", interrupted_at="waits")
        assert ended.status == -signal.SIGINT
        assert said(ended) == "" and ended.err.endswith("KeyboardInterrupt\n")
