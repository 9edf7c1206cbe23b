"""A watch beside debuggers, profilers and other watches; and for as long as a training lasts."""

import contextlib
import cProfile
import gc
import os
import subprocess
import sys
import threading
import tracemalloc
import warnings
from functools import partial

import fresh
import pytest
import torch
from columns import needs_columns
from marked_lines import line
from torch.overrides import TorchFunctionMode

import backsight as bs

before_monitoring = pytest.mark.skipif(sys.version_info >= (3, 12), reason="sys.monitoring has room for all")


def source(y):
    """The line that made `y`."""
    found = bs.graph(y).nodes[0].source
    return int(found.rpartition(":")[2]) if found else None


@before_monitoring
def test_where_a_debugger_traces_lines_are_given_up_and_that_is_said_once():
    x = torch.ones(3, requires_grad=True)

    def debugger(frame, event, arg):
        return None

    sys.settrace(debugger)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with bs.watch(level="lines") as watch:
                assert source(x * 2) is None and watch.level == "calls"
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(None)
    (said,) = [str(each.message) for each in caught]
    assert said == f"backsight: lines are not watched: {__name__} already uses Python's only trace function"
    assert watch.notes == (said.removeprefix("backsight: "),)


def test_the_exact_level_needs_no_place_for_a_tracer():
    x = torch.ones(3, requires_grad=True)
    sys.settrace(debugger := lambda frame, event, arg: None)
    try:
        with bs.watch(level="exact") as watch:
            y = x * 2  # traced
            here = source(y)
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(None)
    assert here == line("traced", test_the_exact_level_needs_no_place_for_a_tracer) and watch.notes == ()


@before_monitoring
def test_a_debugger_that_comes_later_has_its_way():
    x = torch.ones(3, requires_grad=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with bs.watch(level="lines"):
            first = x * 2  # before it
            sys.settrace(debugger := lambda frame, event, arg: None)
        assert sys.gettrace() is debugger
    sys.settrace(None)
    assert "another tracer took over" in str(caught[0].message)
    assert first.requires_grad


def test_a_profiler_and_a_watch():
    x = torch.ones(3, requires_grad=True)
    profiler = cProfile.Profile()
    for level in ("lines", "exact"):
        with bs.watch(level=level):
            profiler.enable()
            y = x * 2  # profiled
            here = source(y)
            profiler.disable()
        assert here == line("profiled", test_a_profiler_and_a_watch)


SESSION = """
import torch, backsight as bs
x = torch.ones(3, requires_grad=True)
with bs.watch(level={level!r}):
    y = x * 2
    breakpoint()
    z = y + 1
    print("source", bs.graph(y).nodes[0].source.rpartition(":")[2])
print("done", z.sum().item())
"""


@pytest.mark.parametrize("level", ["lines", "exact"])
def test_a_session_with_pdb_works(level, tmp_path):
    script = tmp_path / "session.py"
    script.write_text(SESSION.format(level=level))
    command = [sys.executable, "-W", "ignore", str(script)]
    done = fresh.run(command, input="next\np y.tolist()\ncontinue\n", timeout=100)
    assert "[2.0, 2.0, 2.0]" in done.stdout and "source 5" in done.stdout and "done 9.0" in done.stdout
    assert done.returncode == 0


STEPPED = """
import torch, pdb
from torch.nn import functional as F
layer = torch.nn.Linear(2, 1)
def step(i):
    x = torch.ones(3, 2) * i
    y = layer(x) * 2 + 1
    s = F.softmax(y, 0); loss = s.sum()
    loss.backward()
    print("step", i)
def main():
    pdb.set_trace()
    for i in range(3):
        step(i)
    print("end")
main()
"""


@pytest.mark.parametrize(
    "commands",
    [
        "b 6\nb 7\nb 8\nb 9\n" + "c\np x.shape\n" * 12 + "c\n",
        "b 7\nc\nn\np x.shape\nn\np y.shape\nr\ncl 1\nc\n",
    ],
)
def test_a_debugger_stops_in_the_program_alone(commands, tmp_path):
    bare, watched = tmp_path / "bare" / "stepped.py", tmp_path / "watched" / "stepped.py"
    said = []
    for script, change in (bare, ""), (watched, "import backsight; backsight.watch(level='exact').__enter__(); "):
        script.parent.mkdir()
        script.write_text(STEPPED.replace("\nimport torch", f"\n{change}import torch", 1))
        command = [sys.executable, "-W", "ignore", script.name]
        done = fresh.run(command, input=commands, timeout=100, cwd=script.parent)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.replace(str(script.parent), ""))
    assert said[0] == said[1]


WARNED = """
import warnings
import torch, backsight
shown = []
warnings.simplefilter("always")
warnings.showwarning = lambda message, kind, file, line, *rest: shown.append((file == __file__, line))
with backsight.watch(level="exact"):
    torch.nn.functional.mse_loss(torch.zeros(2, 3), torch.zeros(3))
    torch.zeros(3, requires_grad=True).exp().grad
print(shown)
"""


@pytest.mark.parametrize("core", ["ctrace", "pytrace"])
def test_warnings_are_of_the_programs_lines_under_coverage(core, tmp_path):
    pytest.importorskip("coverage")
    script = tmp_path / "warned.py"
    script.write_text(WARNED)
    command = [sys.executable, "-m", "coverage", "run", "--data-file", str(tmp_path / "data"), str(script)]
    environment = {**os.environ, "COVERAGE_CORE": core}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment, check=False)
    assert done.stdout == "[(True, 8), (True, 9)]\n", done.stderr


BRANCHING = """
import torch
def positive(x):
    if torch.sum(x) > 0:
        return 1
def main():
    for _ in range(2):
        positive(torch.ones(2))
"""


def test_no_branch_counts_as_taken_that_the_program_has_not_taken(tmp_path):
    """Coverage of branches is a set of pairs of lines; the end of a function is its first line, negative."""
    arcs, last = set(), {}

    def tracer(frame, event, argument):
        if frame.f_code.co_filename != "branching.py":
            return None
        end = -frame.f_code.co_firstlineno
        before = last.get(id(frame), end)
        after = end if event == "return" else frame.f_lineno
        if event != "call":
            arcs.add((before, after))
            last[id(frame)] = after
        if event == "return":
            last.pop(id(frame))
        return tracer

    tracer.__module__ = "coverage"  # which stops nowhere, as a debugger would

    def run(watching):
        arcs.clear()
        space = {}
        exec(compile(BRANCHING, "branching.py", "exec"), space)
        with watching:
            sys.settrace(tracer)
            try:
                space["main"]()
            finally:
                sys.settrace(None)
        return set(arcs)

    plain, watched = run(contextlib.nullcontext()), run(bs.watch(level="exact"))
    assert (4, -3) not in plain  # from the `if` to the end of `positive`
    assert plain <= watched
    assert all(-end > line for line, end in watched - plain if end < 0), watched - plain


@needs_columns
def test_watches_within_each_other():
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level="exact") as outer, bs.watch(level="exact") as inner:
        node = bs.graph(x * 2).nodes[0]  # both
    here = line("both", test_watches_within_each_other)
    assert outer.line_of(node).line == inner.line_of(node).line == here
    assert outer.operation_of(node).line.segment == "x * 2"


@before_monitoring
def test_watches_of_lines_within_each_other_share_the_one_tracer():
    x = torch.ones(3, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outer = bs.watch(level="lines").__enter__()
        before = x * 2
        with bs.watch(level="lines") as inner:
            both = x * 3  # in both
            both.sum().backward()
        after = x * 4  # after one
        other = bs.watch(level="lines").__enter__()
        outer.__exit__(None, None, None)
        last = x * 5  # at last
        other.__exit__(None, None, None)
    assert sys.gettrace() is None
    here = partial(line, test=test_watches_of_lines_within_each_other_share_the_one_tracer)
    node = {y: bs.graph(y).nodes[0] for y in (before, both, after, last)}
    assert inner.level == "lines" and inner.notes == ()
    assert outer.line_of(node[both]).line == inner.line_of(node[both]).line == here("in both")
    assert inner.line_of(node[before]) is None and inner.line_of(node[after]) is None
    assert outer.line_of(node[after]).line == here("after one") and outer.line_of(node[last]) is None
    assert other.line_of(node[last]).line == here("at last")
    assert [each.line.line for each in inner.backwards] == [here("in both") + 1]


def test_a_function_that_calls_itself_is_watched_without_a_word():
    @bs.watch(level="lines")
    def again(n, x):
        y = x * 2
        return again(n - 1, y) if n else bs.graph(y).nodes[0].source

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert again(1, torch.ones(2, requires_grad=True)) is not None
    assert sys.gettrace() is None


LEFT_OPEN = """
import torch, backsight as bs, atexit
atexit.register(lambda: print("end"))
bs.watch(level="lines").__enter__()
class Last:
    def __del__(self):
        for _ in range(3): str(self)
    def __str__(self): return "last"
import sys
sys.modules["backsight.kept"] = last = Last()
sys.last = torch.last = last
y = torch.ones(2, requires_grad=True) * 2
"""


def test_a_watch_that_is_left_open_ends_without_noise(tmp_path):
    script = tmp_path / "left.py"
    script.write_text(LEFT_OPEN)
    done = fresh.run([sys.executable, str(script)], timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_thread_that_outlives_the_watch_goes_on_alone():
    go, done, made = threading.Event(), threading.Event(), []

    def work():
        go.wait(30)
        made.append(torch.ones(2, requires_grad=True) * 2)
        done.set()

    with bs.watch(level="exact"):
        thread = threading.Thread(target=work)
        thread.start()
    go.set()
    assert done.wait(30)
    thread.join()
    assert made[0].tolist() == [2.0, 2.0]


@pytest.mark.parametrize("level", ["lines", "exact"])
def test_memory_is_bounded_by_what_graphs_that_live_need(level):
    x = torch.ones(3, requires_grad=True)
    with bs.watch(level=level) as watch:
        table = watch._log.threads.here()
        table.limit = 500
        kept = x.exp()  # kept
        old = bs.graph(kept).nodes[0]
        sizes, storages = [], []
        for _ in range(8):
            for _ in range(300):
                h = x * 2
                h = h.detach().add_(1)
                (h * x).sum().backward()
            sizes.append(len(table))
            storages.append((len(watch._log.changes), len(watch._log.flow), len(watch._log.sites._sites)))
        assert max(sizes) <= 500 and sizes[-1] < 5 * 300
        assert storages[-1] == storages[1] and max(storages[-1]) < 60
        assert watch.line_of(old).line == line("kept", test_memory_is_bounded_by_what_graphs_that_live_need)
        assert kept.requires_grad


@pytest.mark.slow
def test_a_long_training_needs_no_more_memory_than_a_short_one():
    weight = torch.nn.Parameter(torch.ones(3))
    opt = torch.optim.SGD([weight], lr=1e-3)

    def train(steps):
        for _ in range(steps):
            loss = (weight * 2).exp().sum()
            opt.zero_grad()
            loss.backward()
            opt.step()

    tracemalloc.start()
    try:
        with bs.watch(level="exact") as watch:
            watch._log.threads.here().limit = 1000
            train(1500)
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            train(2500)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 100_000  # an object for each step would be more; other threads of the process take some


def test_code_that_is_made_anew_is_not_kept_forever(monkeypatch):
    from backsight.tracing import sites

    monkeypatch.setattr(sites, "MOST", 50)
    names = {"x": torch.ones(3, requires_grad=True), "__name__": "__main__"}
    with bs.watch(level="exact") as watch:
        for n in range(200):
            exec(compile(f"y = x * {n}", f"<cell {n}>", "exec"), names)
        assert len(watch._log.sites._sites) <= 50
        assert watch.operation_of(bs.graph(names["y"]).nodes[0]).op == "mul"


class Names(TorchFunctionMode):
    """Names what it is asked about."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_mode_of_the_program_is_asked_about_the_same_backwards_as_without_a_watch():
    def named(watched):
        x = torch.ones(3, requires_grad=True)
        with Names() as mode, bs.watch(level="exact") if watched else contextlib.nullcontext():
            y = x * 2
            y.register_hook(lambda grad: grad.neg())
            y.sum().backward()
            torch.autograd.grad((x * 2).sum(), x)
        return [name for name in mode.names if name in ("backward", "grad", "neg")]

    assert named(watched=True) == named(watched=False) == ["backward", "grad"]


def test_a_subclass_of_tensor_is_asked_about_its_backward_under_a_watch():
    asked = []

    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(3).as_subclass(Mine).requires_grad_()
    with bs.watch(level="exact"):
        x.sum().backward()
    assert "backward" in asked
    assert x.grad.tolist() == [1, 1, 1]
