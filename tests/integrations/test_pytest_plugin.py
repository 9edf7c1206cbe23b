"""The pytest plugin: explanations in reports, tests that fail on leaked graphs, and nothing where nothing is wrong."""

from __future__ import annotations

import re
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path

import fresh
import pytest

import backsight

pytest_plugins = ["pytester"]

SOURCE = Path(backsight.__file__).parents[1]
PLUGIN = "backsight.integrations.pytest_plugin"

FAILING = """
import pytest, torch

@pytest.fixture
def rnn():
    return torch.nn.RNN(4, 4)

def test_carried(rnn):
    hidden = torch.zeros(1, 1, 4)
    for step in range(3):
        output, hidden = rnn(torch.randn(3, 1, 4), hidden)
        output.sum().backward()
"""

FAILS = "torch.ones(2).sum().backward()"


@pytest.fixture
def run(pytester, monkeypatch):
    """Run the text of a test file in a pytest of its own that has the plugin, and return what it printed."""
    installed = pytester.mkdir("installed")
    info = installed / "backsight_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: backsight-plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[pytest11]\nbacksight = {PLUGIN}\n")
    monkeypatch.setenv("PYTHONPATH", f"{installed}:{SOURCE}")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)

    def run(source: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=source)
        own = (f"--basetemp={pytester.path / 'of-its-own'}", "-p", "no:cacheprovider")
        others = [each.name for each in entry_points(group="pytest11") if each.value != PLUGIN]
        unused = [f"-pno:{name}" for name in others if not (name.startswith("xdist") and "-n" in options)]
        command = [sys.executable, "-m", "pytest", *own, *unused, *options]
        begun = time.perf_counter()
        ended = fresh.run(command, cwd=pytester.path)
        print(ended.stdout, ended.stderr)
        told = ended.stdout.splitlines(), ended.stderr.splitlines()
        return pytest.RunResult(ended.returncode, *told, time.perf_counter() - begun)

    return run


def test_it_is_loaded_by_the_name_that_the_package_gives_it():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert re.search(rf'^\[project\.entry-points\.pytest11\]\nbacksight = "{re.escape(PLUGIN)}"$', text, re.MULTILINE)


HIDDEN = """
import pytest, torch

runs = []

@pytest.fixture(scope="module")
def encoder():
    print("made")
    yield torch.nn.Linear(3, 3)
    print("unmade")

def regularized(settings):
    return lambda h: torch.nn.functional.dropout(h, **settings)

def test_forward(encoder, tmp_path):
    runs.append(1)
    drop = regularized({"p": 0.5, "inplace": True})
    drop(encoder(torch.ones(2, 3)).exp()).sum().backward()

def test_that_passes(encoder):
    assert len(runs) == 1

def test_that_fails_otherwise():
    runs.append(1)
    raise ValueError

def test_at_last():
    assert len(runs) == 2
"""

OBSERVED = """
import logging, random, warnings
import numpy as np, pytest, torch

events = []

@pytest.fixture(scope="session")
def once():
    events.append("session up")
    yield
    events.append("session down")

@pytest.fixture(scope="module")
def table(once):
    events.append("module up")
    yield []
    events.append("module down")

@pytest.fixture(scope="class")
def scratch():
    events.append("class up")
    yield
    events.append("class down")

def draw():
    return random.random(), np.random.rand(), torch.rand(()).item()

def test_before():
    random.seed(0), np.random.seed(0), torch.manual_seed(0)

class TestIt:
    def test_failing(self, table, scratch):
        table.append(draw())
        print("printed once")
        logging.getLogger().warning("logged once")
        warnings.warn("warned once")
        loss = torch.ones(3, requires_grad=True).exp().sum()
        loss.backward()
        loss.backward()

def test_what_others_see(table):
    assert len(table) == 1
    assert events == ["session up", "module up", "class up", "class down"]
    drawn = draw()
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    assert (table[0], drawn) == (draw(), draw())
"""

SECOND = """
import json, os, random, sys, threading, time
import torch

NO_THREADS = "Unable to handle autograd's threading in combination with fork-based multiprocessing."
drawn = []

def fail_again():
    loss = torch.ones(3, requires_grad=True).exp().sum()
    loss.backward()
    loss.backward()
"""


class TestRunAgain:
    def test_what_the_second_run_has_seen_is_told_and_the_first_one_counts(self, run):
        done = run(HIDDEN, "--backsight")
        done.assert_outcomes(failed=2, passed=2)
        said = done.stdout.str()
        assert "backsight explains, rerun under its watch" in said
        assert re.search(r"❱ +\d+ │     return lambda h: torch\.nn\.functional\.dropout\(h, \*\*settings\)", said)
        assert "fix: Let dropout create a new tensor" in said

    def test_without_it_the_report_says_that_it_can_be_had(self, run):
        said = run(HIDDEN, "-k", "forward").stdout.str()
        assert "torch.nn.functional.dropout(h, **settings)\n     │" not in said
        assert "pytest --backsight" in said
        assert "pytest --backsight" not in run(FAILING.replace("range(3)", "[1]"), "--backsight").stdout.str()

    def test_one_that_does_not_fail_again_keeps_its_first_explanation(self, run):
        flaky = """
import torch
runs = []
def test_it():
    runs.append(1)
    y = torch.ones(3, requires_grad=True).exp()
    if len(runs) == 1:
        y += 1
    y.sum().backward()
"""
        done = run(flaky, "--backsight")
        done.assert_outcomes(failed=1)
        assert (
            "(Under the watch, the test did not fail this way: this explanation is from the first run.)"
        ) in done.stdout.str()

    def test_nobody_else_sees_it(self, run, pytester):
        done = run(OBSERVED, "--backsight", "--log-file=it.log", "--junitxml=it.xml")
        done.assert_outcomes(failed=1, passed=2, warnings=1)
        said, log, junit = done.stdout.str(), *((pytester.path / name).read_text() for name in ("it.log", "it.xml"))
        assert "backsight explains, rerun under its watch" in said
        assert said.count("\nprinted once") == 1 and log.count("logged once") == 1
        assert junit.count("<testcase") == 3 and junit.count("<failure") == 1

    def test_nor_does_the_terminal_where_nothing_is_captured(self, run):
        done = run(OBSERVED, "--backsight", "-s", "--setup-show")
        done.assert_outcomes(failed=1, passed=2, warnings=1)
        assert len(re.findall('printed once(?!")', done.stdout.str())) == 1
        assert done.stdout.str().count("SETUP    C scratch") == 1

    def test_it_draws_the_same_random_numbers(self, run):
        source = """
def test_it():
    drawn.append((random.random(), torch.rand(()).item()))
    assert drawn[0] == drawn[-1]
    fail_again()
"""
        assert "rerun under its watch" in run(SECOND + source, "--backsight").stdout.str()

    def test_after_work_in_several_threads_of_openmp(self, run):
        source = """
torch.set_num_threads(2)
def test_it():
    (torch.ones(512, 512) @ torch.ones(512, 512)).exp().sum()
    fail_again()
"""
        assert "rerun under its watch" in run(SECOND + source, "--backsight").stdout.str()

    @pytest.mark.parametrize(
        ("source", "why"),
        [
            (
                "threading.Thread(target=time.sleep, args=(60,), daemon=True, name='loader').start()\n"
                "def test_it(): fail_again()",
                "a fork of this process would lack its thread loader",
            ),
            (
                "torch.cuda.is_initialized = lambda: True\ndef test_it(): fail_again()",
                "CUDA is in use, and a fork of this process could not use it",
            ),
            (
                "import types, backsight.integrations.second_run as ours\n"
                "ours.sys = types.SimpleNamespace(platform='darwin')\ndef test_it(): fail_again()",
                "forks are only safe on Linux",
            ),
            (
                "def fork(): raise BlockingIOError(11, 'no more processes')\nos.fork = fork\n"
                "def test_it(): fail_again()",
                "this process could not be forked (no more processes)",
            ),
            (
                "def test_it():\n    drawn.append(1)\n    if len(drawn) == 2: os._exit(3)\n    fail_again()",
                "its second run ended before the test did",
            ),
            (
                "import backsight.integrations.second_run as ours\nours._LONGEST = ours._TIMES_AS_LONG = 0.1\n"
                "def test_it():\n    drawn.append(1)\n    if len(drawn) == 2: time.sleep(600)\n    fail_again()",
                "its second run took more than 0 s",
            ),
            (
                "def test_it():\n    drawn.append(1)\n    if len(drawn) == 2: raise RuntimeError(NO_THREADS)\n"
                "    fail_again()",
                "autograd's threads for devices run, which a fork of this process would lack",
            ),
        ],
        ids=["a thread", "CUDA", "macOS", "no process", "an end", "too long", "threads of devices"],
    )
    def test_where_it_cannot_be_the_first_explanation_stays_and_says_why(self, run, source, why):
        done = run(SECOND + source, "--backsight")
        done.assert_outcomes(failed=1)
        (line,) = [line for line in done.stdout.lines if line.startswith("(Not rerun: ")]
        assert f"{why}. `backsight run -m pytest test_it.py::test_it` watches its first run.)" in line
        assert "backward() runs on loss a second time" in done.stdout.str()

    def test_what_it_has_started_ends_with_it(self, run, pytester):
        source = """
def test_it():
    drawn.append(1)
    if len(drawn) == 2:
        child = os.fork()
        if not child:
            time.sleep(600)
        open("child", "w").write(str(child))
    fail_again()
"""
        assert "rerun under its watch" in run(SECOND + source, "--backsight").stdout.str()
        status = Path("/proc", (pytester.path / "child").read_text(), "status")
        assert not status.exists() or "State:\tZ" in status.read_text()

    def test_a_unittest_is_run_again_too(self, run):
        source = """
import torch, unittest
class Test(unittest.TestCase):
    def setUp(self):
        self.scale = torch.ones(3, requires_grad=True)
    def test_it(self):
        y = self.scale.exp()
        (lambda t: t.add_(1))(y)
        y.sum().backward()
"""
        done = run(source, "--backsight")
        done.assert_outcomes(failed=1)
        assert "rerun under its watch" in done.stdout.str()


class TestReports:
    def test_an_autograd_error_is_explained_below_its_traceback(self, run):
        done = run(FAILING)
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(
            [
                "E * RuntimeError: Trying to backward through the graph a second time*",
                "*- backsight explains -*",
                "error BS201  hidden, a tensor of shape 1×1×4, carries the graph of one iteration*",
                "     test_it.py:10",
                "❱ 10 │     output, hidden = rnn(torch.randn(3, 1, 4), hidden)",
                "     │                      ^^^^^*",
                "     │     ╰╴reads hidden from the previous iteration*",
                "  fix: Detach after each step: put *hidden = hidden.detach()*",
            ]
        )
        assert "\x1b" not in done.stdout.str()

    def test_in_colours_where_pytest_writes_in_colours(self, run):
        assert "\x1b[1;31m❱ " in run(FAILING, "--color=yes").stdout.str()

    def test_one_in_a_fixture_likewise(self, run):
        done = run(f"import pytest, torch\n@pytest.fixture\ndef loss():\n    {FAILS}\ndef test_it(loss): pass")
        done.assert_outcomes(errors=1)
        assert "error BS203" in done.stdout.str()

    def test_one_in_a_unittest_likewise(self, run):
        done = run(f"import torch, unittest\nclass Test(unittest.TestCase):\n    def test_it(self): {FAILS}")
        done.assert_outcomes(failed=1)
        assert "error BS203" in done.stdout.str()

    @pytest.mark.parametrize(
        "source",
        [
            "import torch\ndef test_it(): assert torch.ones(1) == 2",
            "import torch\ndef test_it(): raise KeyboardInterrupt",
            f"import pytest, torch\n@pytest.mark.xfail\ndef test_it(): {FAILS}",
            f"import pytest, torch\ndef test_it():\n    with pytest.raises(RuntimeError): {FAILS}",
            f"import pytest, torch\ndef test_it():\n    try: {FAILS}\n    except RuntimeError: pytest.skip()",
        ],
        ids=["another error", "an interrupt", "an expected failure", "an expected error", "a skip"],
    )
    def test_nothing_is_said_of_others(self, run, source):
        assert "backsight explains" not in run(source).stdout.str()

    def test_a_failure_of_ours_leaves_the_report_as_it_is(self, run):
        breaking = (
            "import backsight.diagnosis as d\ndef explain(error): raise ValueError('ours')\nd.explain = explain\n"
        )
        done = run(breaking + FAILING)
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(
            ["E * RuntimeError: Trying to*", "backsight could not explain this error: ValueError"]
        )

    @pytest.mark.slow
    def test_with_xdist_the_workers_explain(self, run):
        pytest.importorskip("xdist")
        done = run(FAILING, "-n", "1")
        done.assert_outcomes(failed=1)
        assert "❱ 10 │     output, hidden" in done.stdout.str()


class TestCosts:
    PASSING = """
import sys
def test_it(): pass
def test_modules():
    ours = {m for m in sys.modules if m.startswith('backsight')}
"""

    def test_nothing_is_imported_where_no_test_fails(self, run):
        few = {"backsight", "backsight._version", "backsight.integrations", "backsight.integrations.notebook", PLUGIN}
        few |= {f"backsight.text{each}" for each in ("", ".characters", ".stdout", ".wording")}
        source = (
            f"{self.PASSING}    assert ours == {few}\n    assert not {{'torch', 'rich', 'numpy'}} & sys.modules.keys()"
        )
        run(source).assert_outcomes(passed=2)

    def test_nor_where_one_fails_without_torch(self, run):
        source = "import sys\ndef test_it(): assert 0\ndef test_modules(): assert 'torch' not in sys.modules"
        run(source).assert_outcomes(failed=1, passed=1)

    def test_switched_off_it_is_not_even_imported(self, run):
        off = run(f"{self.PASSING}    assert ours == set()", "-p", "no:backsight")
        off.assert_outcomes(passed=2)
        assert "backsight explains" not in run(FAILING, "-p", "no:backsight").stdout.str()


LEAKING = """
import pytest, torch
history, model = [], torch.nn.Linear(2, 1)

def losses(n):
    return [model(torch.ones(4, 2)).mean() for _ in range(n)]
"""


class TestLeakedGraphs:
    def test_a_test_that_leaves_graphs_behind_fails_and_says_who_holds_them(self, run):
        done = run(LEAKING + "def test_it(no_leaked_graphs): history.extend(losses(3))")
        done.assert_outcomes(failed=1)
        done.stdout.fnmatch_lines(
            [
                "autograd graphs from this test are still alive:",
                "3 live graphs, 9 operations, * kept for backward",
                "test_it.history?2?*",
            ]
        )

    def test_one_that_lets_them_go_passes(self, run):
        run(LEAKING + "def test_it(no_leaked_graphs):\n    for loss in losses(3): loss.backward()").assert_outcomes(
            passed=1
        )

    def test_so_does_one_whose_graphs_wait_for_the_collector(self, run):
        cycle = "def test_it(no_leaked_graphs):\n    held = losses(3)\n    held.append(held)"
        run(LEAKING + cycle).assert_outcomes(passed=1)

    def test_what_was_there_before_is_not_held_against_it(self, run):
        source = LEAKING + (
            "history.extend(losses(3))\n"
            "def test_fails(): assert losses(2) == []\n"  # its traceback holds graphs, until another test fails
            "def test_reads(no_leaked_graphs): assert len(history) == 3\n"
            "def test_drops(no_leaked_graphs): history.pop()\n"
            "def test_adds(no_leaked_graphs): history.extend(losses(1))\n"
        )
        run(source).assert_outcomes(passed=2, failed=2)

    def test_what_a_fixture_holds_counts(self, run):
        source = (
            LEAKING + "@pytest.fixture\ndef log(): return []\ndef test_it(log, no_leaked_graphs): log.extend(losses(2))"
        )
        done = run(source)
        done.assert_outcomes(failed=1)
        assert "2 live graphs" in done.stdout.str()

    def test_a_test_that_fails_fails_by_itself(self, run):
        done = run(LEAKING + "def test_it(no_leaked_graphs):\n    history.extend(losses(1))\n    assert 0, 'mine'")
        assert "mine" in done.stdout.str() and "still alive" not in done.stdout.str()

    @pytest.mark.parametrize("when", [1, 2])
    def test_a_failure_of_ours_fails_the_test_that_asked_and_no_other(self, run, when):
        breaking = f"""
import backsight.diagnosis as d
real, calls = d.graphs, []
def graphs(names=True):
    calls.append(1)
    if len(calls) == {when}: raise ValueError("ours")
    return real(names=names)
d.graphs = graphs
def test_it(no_leaked_graphs): pass
def test_other(no_leaked_graphs): pass
"""
        done = run(LEAKING + breaking)
        done.assert_outcomes(failed=1, passed=1)
        done.stdout.fnmatch_lines(["backsight could not look for live graphs: ValueError: ours"])

    def test_for_every_test_of_a_file(self, run):
        marked = "pytestmark = pytest.mark.usefixtures('no_leaked_graphs')\n"
        run(LEAKING + marked + "def test_it(): history.extend(losses(1))\ndef test_fine(): pass").assert_outcomes(
            failed=1, passed=1
        )

    def test_a_test_that_knows_no_torch_has_none(self, run):
        source = (
            "import sys\ndef test_it(no_leaked_graphs): pass\ndef test_modules(): assert 'torch' not in sys.modules"
        )
        run(source).assert_outcomes(passed=2)

    def test_it_is_among_the_fixtures_that_pytest_lists(self, run):
        run("", "--fixtures").stdout.fnmatch_lines(["no_leaked_graphs -- *", "*Fail the test if autograd graphs*"])
