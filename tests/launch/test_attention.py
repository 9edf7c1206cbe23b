"""A training is watched exactly as it begins, and again when a new optimizer begins; in between as if by nobody."""

import sys

import pytest
import torch
from torch import nn
from torch.nn.modules import module as hooks
from torch.overrides import _get_current_function_mode_stack

import backsight as bs
from backsight.launch import first_steps
from backsight.launch.attention import CALLS, STEPS, Attention
from backsight.launch.first_steps import FirstSteps
from backsight.tracing import exact
from backsight.tracing import hooks as hooks_of_a_watch

LATE = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(300):
    hidden = model(torch.randn(8, 4)).sigmoid()
    loss = hidden.sum()
    if step == 250:
        hidden.mul_(2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


class Told(list):
    """What was asked for, in order."""

    def attention(self):
        return Attention(lambda: self.append("pause"), lambda calls: self.append(calls))


def test_it_pauses_after_some_steps_of_the_newest_optimizer():
    told = Told()
    attention = told.attention()
    for number in range(STEPS - 1):
        attention.stepped(first=number == 0)
    assert told == []
    attention.stepped(first=False)
    attention.stepped(first=False)
    assert told == ["pause"]


def test_each_new_optimizer_is_watched_with_fewer_calls():
    told = Told()
    attention = told.attention()
    for _ in range(3):
        for number in range(STEPS + 5):
            attention.stepped(first=number == 0)
    assert told == ["pause", CALLS // 2, "pause", CALLS // 3, "pause"]


def test_one_that_comes_while_another_is_watched_prolongs_it():
    told = Told()
    attention = told.attention()
    for number in range(STEPS + STEPS // 2 - 1):
        attention.stepped(first=number in (0, STEPS // 2))
    assert told == []
    attention.stepped(first=False)
    assert told == ["pause"]


def train(model, optimizer, steps):
    for _ in range(steps):
        loss = model(torch.randn(2, 3)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss


@pytest.fixture
def run(monkeypatch):
    for user in (first_steps, hooks_of_a_watch, exact):  # other tests of this process have compiled something
        monkeypatch.setattr(user, "has_compiled", lambda: False)
    for table in (hooks._global_forward_hooks, hooks._global_forward_pre_hooks):  # nor left anything behind
        for key in [*table]:
            monkeypatch.delitem(table, key)
    first = FirstSteps()
    yield first
    first.stop()


def is_left_alone():
    ours = [hooks._global_forward_hooks, hooks._global_forward_pre_hooks]
    return not any(ours) and not _get_current_function_mode_stack() and sys.gettrace() is None


def test_while_it_is_paused_nothing_of_ours_is_on_the_way_of_a_call(run):
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train(model, optimizer, STEPS - 1)
    assert not run.paused and not is_left_alone()
    train(model, optimizer, 50)
    assert run.paused and is_left_alone() and run.steps == STEPS + 49
    assert bs.graph(train(model, optimizer, 1)).nodes[0].source is None

    train(model, torch.optim.SGD(model.parameters(), lr=0.01), 1)
    assert not run.paused and not is_left_alone()
    assert bs.graph(train(model, optimizer, 1)).nodes[0].source.startswith(__file__)


def test_a_program_that_never_steps_is_left_alone_after_some_calls(run):
    model = nn.Linear(3, 1)
    with torch.no_grad():
        for _ in range(CALLS):
            model(torch.ones(1, 3))
            if run.paused:
                break
    assert run.paused and is_left_alone()
    train(model, torch.optim.SGD(model.parameters(), lr=0.01), 2)
    assert not run.paused


def test_once_enough_calls_were_seen_a_step_ends_the_watch(run):
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train(model, optimizer, 40)  # by then no loss is audited any more
    run.watch.limit(5)
    train(model, optimizer, 2)
    assert run.paused and is_left_alone()


@pytest.mark.parametrize("options", [{"level": "exact"}, {"level": "lines"}, {"nonfinite": True}])
def test_who_asked_for_a_level_or_for_nan_gets_it_to_the_end(options):
    model = nn.Linear(3, 1)
    first = FirstSteps(**options)
    try:
        train(model, torch.optim.SGD(model.parameters(), lr=0.01), STEPS + 5)
        assert not first.paused
    finally:
        first.stop()


def test_a_late_error_is_explained_after_the_fact_and_said_to_be(bench):
    bench.write("train.py", LATE)
    plain, ended = bench.python("train.py"), bench.observed("train.py")
    assert ended.status == plain.status == 1 and ended.err.startswith(plain.err)
    assert "error BS202" in ended.err and "train.py:12" in ended.err
    assert "were watched.\n  To watch every step: backsight run --watch exact ...\n" in ended.err


COMPILED = """
import torch

model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
compiled = torch.compile(model, backend="eager", dynamic=False)
for step in range(150):
    if step == 3:
        torch.compiler.set_stance("fail_on_recompile")
    loss = compiled(torch.ones(4, 3)).square().sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained")
"""


COMPILED_FUNCTION = """
import torch

model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
criterion = torch.compile(lambda given: given.square().sum(), backend="eager", dynamic=False)
for step in range(150):
    if step == 3:
        torch.compiler.set_stance("fail_on_recompile")
    if step == 120:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    criterion(model(torch.ones(4, 3))).backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained")
"""


@pytest.mark.parametrize("program", [COMPILED, COMPILED_FUNCTION], ids=["module", "function"])
def test_nothing_is_compiled_anew_when_the_watch_pauses(bench, program):
    bench.write("train.py", program)
    ended = bench.observed("train.py")
    assert (ended.status, ended.out) == (0, "trained\n"), ended.err


LEFT_ALONE = """
import torch
from torch.nn.modules import module

model = torch.nn.Linear(3, 2)
def train(steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for _ in range(steps):
        compiled(torch.ones(4, 3)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

compiled = model
train(120)
print(len(module._global_forward_hooks), len(module._global_forward_pre_hooks))
compiled = torch.compile(model, backend="eager", dynamic=False)
train(3)
torch.compiler.set_stance("fail_on_recompile")
train(120)
print("trained")
"""


def test_nothing_stays_though_optimizers_import_the_compiler_and_nothing_comes_back_once_it_has_compiled(bench):
    bench.write("train.py", LEFT_ALONE)
    ended = bench.observed("train.py")
    assert (ended.status, ended.out) == (0, "0 0\ntrained\n"), ended.err


def test_and_with_every_step_watched_as_it_was_seen(bench):
    bench.write("train.py", LATE)
    ended = bench.observed("--watch", "exact", "train.py")
    assert "error BS202" in ended.err and "train.py:12" in ended.err and "--watch" not in ended.err


IN_A_THREAD = "import threading; t = threading.Thread(target=__import__, args=('torch',)); t.start(); t.join()"


@pytest.mark.parametrize("where", ["main", "thread"])
@pytest.mark.process
@pytest.mark.slow
def test_a_program_that_imports_torch_in_a_thread_is_watched_where_it_trains(bench, where):
    source = LATE.replace("250", "3").replace("for step", "def train():\n  for step").replace("\n    ", "\n      ")
    start = "train()" if where == "main" else "u = threading.Thread(target=train, name='u'); u.start(); u.join()"
    bench.write("train.py", f"import threading; import torch{source}{start}\n")
    plain = bench.forked.observed("train.py").err.partition("\nbacksight explains")[2]
    bench.write("train.py", f"{IN_A_THREAD}{source}{start}\n")
    assert "saves hidden" in plain
    assert bench.observed("train.py").err.partition("\nbacksight explains")[2] == plain


def test_an_early_error_says_nothing_of_it(bench):
    bench.write("train.py", LATE.replace("250", "3"))
    assert "--watch" not in bench.observed("train.py").err
