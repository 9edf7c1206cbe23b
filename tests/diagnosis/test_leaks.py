"""BS111: what grows at every look is told with the variable, the statement and the fix; what does not is not."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from failures import at, written
from torch.optim.optimizer import register_optimizer_step_post_hook

import backsight as bs
from backsight.diagnosis.live import Leaks
from backsight.diagnosis.live.census import works_elsewhere

BEGIN = """
import torch
from torch import nn
from collections import deque

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""


@contextmanager
def looking() -> Iterator[Leaks]:
    leaks = Leaks()
    handle = register_optimizer_step_post_hook(lambda optimizer, args, kwargs: leaks.stepped(optimizer))
    try:
        yield leaks
    finally:
        handle.remove()


def found_in(program: str) -> tuple[bs.Finding, ...]:
    """Run a program as a script is, with its source known, and return what was found to grow."""
    import linecache

    text = written(BEGIN) + written(program)
    linecache.cache["train.py"] = (len(text), None, text.splitlines(keepends=True), "train.py")
    variables: dict[str, Any] = {"__name__": "__main__"}
    with torch.random.fork_rng(), looking() as leaks:
        exec(compile(text, "train.py", "exec"), variables)
    return leaks.findings


def where(program: str) -> str:
    return at(written(BEGIN) + written(program))


LEAKS = {
    "a list of losses": (
        """
        def train(steps):
            history = []
            for _ in range(steps):
                loss = model(torch.randn(4, 8)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                history.append(loss)  # here
        train(10)
        """,
        "history (local of train) holds the graphs of more and more steps.",
        "It held 3 graphs after 4 steps, 5 after 6 and 7 after 8: 1 graph and 6 operations more with each step. The "
        "newest is history[6] (local of ",
        "history.append(loss.item()), which keeps the number and drops the graph.",
    ),
    "a list of predictions in a dict": (
        """
        results = {"train": []}
        for _ in range(10):
            output = model(torch.randn(4, 8))
            loss = output.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            results["train"].append(output)  # here
        """,
        "results['train'] holds the graphs of more and more steps.",
        "with each step. The newest is results['train'][6].",
        'results["train"].append(output.detach()), which keeps the values and drops the graph.',
    ),
    "a method of a logger": (
        """
        class Logger:
            def __init__(self):
                self.values = {}

            def log(self, name, value):
                self.values.setdefault(name, []).append(value)  # here

        def train(logger):
            for _ in range(10):
                loss = model(torch.randn(4, 8)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                logger.log("loss", loss / 4)
        train(Logger())
        """,
        "logger.values['loss'] (local of train) holds the graphs of more and more steps.",
        "1 graph, 7 operations",
        "self.values.setdefault(name, []).append(value.item()), which keeps the number and drops the graph.",
    ),
    "a running sum": (
        """
        def train(steps):
            total = 0.0
            for _ in range(steps):
                loss = model(torch.randn(4, 8)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss  # here
            print(total / steps)
        train(10)
        """,
        "total (local of train) keeps the graph of every earlier step alive.",
        "It held 21 operations after 4 steps, 35 after 6 and 49 after 8: 7 operations more with each step.",
        "total += loss.item(), which keeps the number and drops the graph.",
    ),
    "a moving average": (
        """
        average = torch.zeros(())
        for _ in range(10):
            loss = model(torch.randn(4, 8)).mean()
            average = 0.9 * average + 0.1 * loss  # here
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
        "average keeps the graph of every earlier step alive.",
        "more with each step.",
        "average = 0.9 * average + 0.1 * loss.detach(), which adds the value and drops its graph.",
    ),
    "a hidden state": (
        """
        cell, hidden = nn.RNNCell(8, 8), torch.zeros(4, 8)
        for _ in range(10):
            hidden = cell(torch.randn(4, 8), hidden)  # here
            loss = model(hidden).mean()
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            optimizer.step()
        """,
        "loss keeps the graph of every earlier step alive.",
        "more with each step.",
        "Detach it at the start of each step: hidden = hidden.detach().",
    ),
    "a state of a module": (
        """
        class Memory(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell, self.state = nn.GRUCell(8, 8), torch.zeros(4, 8)

            def forward(self, x):
                self.state = self.cell(x, self.state)  # here
                return self.state

        memory = Memory()
        def train():
            for _ in range(10):
                loss = model(memory(torch.randn(4, 8))).mean()
                optimizer.zero_grad()
                loss.backward(retain_graph=True)
                optimizer.step()
        train()
        """,
        "loss (local of train) keeps the graph of every earlier step alive.",
        "more with each step.",
        "Detach it at the start of each step: self.state = self.state.detach().",
    ),
    "every fourth step": (
        """
        best = {}
        for step in range(40):
            output = model(torch.randn(4, 8))
            optimizer.zero_grad()
            output.square().mean().backward()
            optimizer.step()
            if step % 4 == 0:
                best[step] = output  # here
        """,
        "best holds the graphs of more and more steps.",
        "2 graphs after 8 steps, 4 after 16 and 8 after 32: 0.25 graphs and 1.2 operations more with each step. The "
        "newest is best[28].",
        "best[step] = output.detach(), which keeps the values and drops the graph.",
    ),
    "what is kept of each of two models that take turns": (
        """
        critic = nn.Linear(8, 1)
        other = torch.optim.SGD(critic.parameters(), lr=0.01)
        scores = []
        for _ in range(10):
            score = critic(torch.randn(4, 8)).mean()
            other.zero_grad()
            score.backward()
            other.step()
            loss = model(torch.randn(4, 8)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scores += [score]  # here
        """,
        "scores holds the graphs of more and more steps.",
        "The newest is scores[",
        "scores += [score.item()], which keeps the number and drops the graph.",
    ),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_told_with_its_variable_its_statement_and_the_fix(leak: str) -> None:
    program, title, grows, fix = LEAKS[leak]
    (finding,) = found_in(program)
    assert (finding.code, finding.severity, finding.title) == ("BS111", "warning", title)
    assert grows in finding.evidence[0]
    assert (finding.source, finding.exact) == (where(program), True)
    assert finding.fix == fix


def test_the_fix_asks_no_number_of_the_tuple_that_has_the_tensor_inside() -> None:
    program = """
    class Replay:
        def __init__(self):
            self.kept = deque(maxlen=1000)

        def push(self, *transition):
            self.kept.append(transition)  # here

    def train(buffer):
        for _ in range(10):
            output = model(torch.randn(4, 8))
            loss = output.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            buffer.push(1.0, KEPT)
    train(Replay())
    """
    for kept, way in {"loss": ".item()", "output": ".detach()"}.items():
        (finding,) = found_in(program.replace("KEPT", kept))
        assert finding.title == "buffer.kept (local of train) holds the graphs of more and more steps."
        assert "The newest is buffer.kept[6][1] (local of train)." in finding.evidence[0]
        assert finding.source == where(program)
        assert finding.fix == (f"Store the value without its graph: use {way} where transition is created.")


def test_which_of_several_statements_it_is_shows_by_the_value() -> None:
    program = """
    def train():
        kept = []
        for step in range(10):
            output = model(torch.randn(4, 8))
            loss = output.square().mean()
            if step > 100:
                kept.append(loss)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            kept.append(output)  # here
    train()
    """
    (finding,) = found_in(program)
    assert finding.source == where(program)


def test_statements_that_cannot_be_told_apart_are_all_shown() -> None:
    (finding,) = found_in(
        """
        def train():
            kept = []
            for step in range(10):
                loss = model(torch.randn(4, 8)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step % 2:
                    kept.append(loss)
                else:
                    kept.append((step, loss))
        train()
        """
    )
    assert not finding.exact and finding.source is None
    assert [each.certainty for each in finding.evidence[1:]] == ["read", "read"]
    assert str(finding).count("(Inferred from the source text.)") == 1


def test_cutting_a_value_that_is_cut_already_is_not_advised() -> None:
    program = """
    def train():
        kept = []
        for _ in range(10):
            output = model(torch.randn(4, 8))
            optimizer.zero_grad()
            output.mean().backward()
            optimizer.step()
            kept.append(output.mean().item())
            kept.append(output)  # here
    train()
    """
    (finding,) = found_in(program)
    assert finding.source == where(program)


HEALTHY = {
    "an ordinary training": """
        for _ in range(40):
            loss = model(torch.randn(4, 8)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    "numbers in a list": """
        history, total = [], 0.0
        for _ in range(40):
            loss = model(torch.randn(4, 8)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())
            total += loss.detach()
        """,
    "a window of the last losses": """
        window = deque(maxlen=5)
        for _ in range(40):
            loss = model(torch.randn(4, 8)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            window.append(loss)
        """,
    "episodes of log-probabilities, used up by each step": """
        for _ in range(40):
            saved = []
            for _ in range(5):
                saved.append(model(torch.randn(4, 8)).mean())
            optimizer.zero_grad()
            torch.stack(saved).sum().backward()
            optimizer.step()
        """,
    "sequences of growing length": """
        for length in range(1, 41):
            h = torch.randn(4, 8)
            for _ in range(length):
                h = h.tanh() * model(h)
            optimizer.zero_grad()
            h.mean().backward()
            optimizer.step()
        """,
    "truncated backpropagation through time": """
        cell, hidden = nn.RNNCell(8, 8), torch.zeros(4, 8)
        for step in range(40):
            hidden = hidden.detach() if step % 4 == 0 else hidden
            hidden = cell(torch.randn(4, 8), hidden)
            loss = model(hidden).mean()
            optimizer.zero_grad()
            loss.backward(retain_graph=True)
            optimizer.step()
        """,
    "one graph that is used again and again": """
        features = model[0](torch.randn(4, 8))
        for _ in range(40):
            optimizer.zero_grad()
            features.sum().backward(retain_graph=True)
            model[0].weight.grad.zero_()
            optimizer.step()
        """,
    "a penalty on the gradient": """
        for _ in range(40):
            x = torch.randn(4, 8, requires_grad=True)
            (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
            optimizer.zero_grad()
            (slope.norm() - 1).square().backward()
            optimizer.step()
        """,
    "a closure": """
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
        def closure():
            optimizer.zero_grad()
            loss = model(torch.ones(4, 8)).square().mean()
            loss.backward()
            return loss
        for _ in range(10):
            last = optimizer.step(closure)
        """,
    "an evaluation that is dropped": """
        for _ in range(40):
            loss = model(torch.randn(4, 8)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scores = [model(torch.randn(4, 8)) for _ in range(3)]
        """,
}


@pytest.mark.parametrize("program", HEALTHY)
def test_a_healthy_program_is_left_in_peace(program: str) -> None:
    assert found_in(HEALTHY[program]) == ()


def test_what_has_stopped_growing_is_no_finding_any_more() -> None:
    assert (
        found_in(
            """
            history = []
            for _ in range(70):
                loss = model(torch.randn(4, 8)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if len(history) < 20:
                    history.append(loss)
            """
        )
        == ()
    )


def test_looking_keeps_nothing_alive_and_changes_no_weight() -> None:
    program = """
    for _ in range(10):
        loss = model(torch.randn(4, 8)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = [p.detach().clone() for p in model.parameters()]
    """
    alone: dict[str, Any] = {}
    exec(written(BEGIN) + written(program), alone)
    looked: dict[str, Any] = {}
    with looking():
        exec(written(BEGIN) + written(program), looked)
    assert all(map(torch.equal, alone["weights"], looked["weights"]))


@pytest.mark.parametrize("leak", LEAKS)
def test_the_fix_stops_it(leak: str) -> None:
    program, _, _, fix = LEAKS[leak]
    lines = program.split("\n")
    (number,) = [number for number, line in enumerate(lines) if "# here" in line]
    indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
    if fix.startswith("Detach it"):  # before the statement that carries it over, which is the first of each step
        lines[number] = f"{indent}{fix.rpartition(': ')[2].rstrip('.')}\n{lines[number]}"
    else:
        lines[number] = indent + fix.partition(", which")[0]
    assert found_in("\n".join(lines)) == ()


def test_live_graphs_are_not_looked_at_while_another_thread_computes() -> None:
    """Its tensors change under our hands: that has ended programs in a segmentation fault."""
    begun, ended, waits = threading.Event(), threading.Event(), threading.Event()

    def computes() -> None:
        begun.set()
        while not ended.is_set():
            torch.ones(8, requires_grad=True).square().sum().backward()

    def waiting() -> None:
        waits.wait(60)

    idle = threading.Thread(target=waiting)
    idle.start()
    try:
        assert not works_elsewhere()
        busy = threading.Thread(target=computes)
        busy.start()
        begun.wait(60)
        try:
            seen = [works_elsewhere() for _ in range(200)]
        finally:
            ended.set()
            busy.join()
        assert sum(seen) > 150
        assert not works_elsewhere()
    finally:
        waits.set()
        idle.join()


def test_a_thread_in_a_hook_of_ours_is_at_work() -> None:
    """It seems to wait, in our own code and in the standard library, and goes on in its backward."""
    begun, ended = threading.Event(), threading.Event()
    ours: dict[str, Any] = {"__name__": "backsight.hook", "begun": begun, "ended": ended}
    source = "def hook(gradient):\n    begun.set()\n    ended.wait(60)"
    exec(compile(source, os.path.join(os.path.dirname(bs.__file__), "hook.py"), "exec"), ours)

    def trains() -> None:
        leaf = torch.ones(8, requires_grad=True)
        leaf.register_hook(ours["hook"])  # type: ignore[no-untyped-call]
        leaf.square().sum().backward()  # type: ignore[no-untyped-call]

    thread = threading.Thread(target=trains)
    thread.start()
    try:
        assert begun.wait(60)
        assert works_elsewhere()
    finally:
        ended.set()
        thread.join()
    assert not works_elsewhere()


LOG = """
ema = {n: p.detach().clone() for n, p in model.named_parameters()}
log = {"loss": 0.0, "outputs": []}
def train_step(x):
    output = model(x)
    loss = output.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for n, p in model.named_parameters():
        ema[n] = 0.9 * ema[n] + 0.1 * p
    log["loss"] += loss
    log["outputs"].append(output * 2)
for _ in range(20):
    train_step(torch.randn(4, 8))
"""


def test_a_statement_that_fills_several_entries_is_one_finding() -> None:
    found = {each.title: each for each in found_in(LOG)}
    average = found.pop("ema (4 entries) keeps the graph of every earlier step alive.")
    assert "ema[n] = 0.9 * ema[n] + 0.1 * p" in str(average.evidence[1])
    assert average.fix == ("ema[n] = (0.9 * ema[n] + 0.1 * p).detach(), which keeps the values and drops the graph.")
    (logged,) = found.values()
    assert logged.title.startswith("log['loss'] keeps the graph of every earlier step alive")
    assert 'log["loss"] += loss.detach()' in logged.fix


def test_a_list_that_holds_results_of_the_graph_that_grows_is_told_with_it() -> None:
    (logged,) = [each for each in found_in(LOG) if each.title.startswith("log")]
    assert str(logged.evidence[-1]).endswith("keeps output * 2, still attached to its graph, in log['outputs'].")
    assert 'log["outputs"].append((output * 2).detach())' in logged.fix


EPOCHS = """
    for epoch in range(5):
        total = 0
        for _ in range(8):
            loss = model(torch.randn(4, 8)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += ADDED  # here
    """


def test_a_sum_that_begins_anew_with_each_epoch_is_told_too() -> None:
    program = EPOCHS.replace("ADDED", "loss")
    (finding,) = found_in(program)
    assert (finding.title, finding.source) == ("total keeps the graph of every earlier step alive.", where(program))
    assert "as with an epoch" in str(finding.evidence[-1])
    assert finding.fix.startswith("total += loss.item()")
    assert found_in(EPOCHS.replace("ADDED", "loss.detach()")) == ()


def test_a_sum_that_has_stopped_growing_is_no_finding() -> None:
    program = EPOCHS.replace("total = 0", "total = 0 if epoch == 0 else total")
    program = program.replace("total +=", "if epoch == 0: total +=")
    assert found_in(program.replace("ADDED", "loss")) == ()
