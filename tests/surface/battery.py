"""What backsight can do, in one small program a feature: run whole, and without one name of PyTorch's inside.

`python battery.py` reads lines of JSON, two lists of names each, and answers with a line: what each job gave without
the first, but for the jobs in the second, which it leaves out.
Every answer comes from a fork, in which backsight is imported anew. The names are hidden from `backsight.surface`:
PyTorch itself needs most of them. That nothing reaches for one past the surface is `test_surface.py`'s to say.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import shutil
import sys
import tempfile
import traceback
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy.ma
import numpy.typing  # noqa: F401  # all this so that no fork imports it
import rich.console
import rich.progress
import rich.table  # noqa: F401
import torch
import torch._dynamo
import torch._subclasses.fake_tensor
import torch._subclasses.schema_check_mode
import torch.profiler.python_tracer
import torch.utils.checkpoint
import torch.utils.flop_counter
from torch import nn

JOBS: dict[str, tuple[frozenset[str], Callable[[], Any]]] = {}


def job(*features: str):
    """Note a job; what it gives may differ only where one of these features is lost."""

    def noted(function):
        JOBS[function.__name__] = frozenset(features), function
        return function

    return noted


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None


class Short(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def explained(program):
    import backsight as bs

    try:
        program()
    except Exception as error:
        found = bs.explain(error)
        return [found.code, found.title]
    raise AssertionError("the program did not fail")


def in_place():
    gates = torch.ones(3, requires_grad=True).sigmoid()
    result = gates * 2
    gates[0] = 0
    result.sum().backward()


@job("saved tensors", "version counters", "calls of backward", "tensor subclasses")
def explains_an_in_place_change():
    return explained(in_place)


@job("saved tensors", "version counters", "calls of backward", "exact watch", "lines of operations")
def explains_it_from_a_watch():
    import backsight as bs

    with bs.watch(level="exact") as watching:
        found = explained(in_place)
    return [*found, watching.level]


@job("calls of backward", "saved tensors", "lines of operations", "custom functions")
def explains_a_second_backward():
    def program():
        loss = torch.ones(3, requires_grad=True).exp().sum()
        loss.backward()
        loss.backward()

    return explained(program)


@job("calls of backward", "lines of operations")
def explains_a_tensor_without_a_graph():
    def program():
        predicted = torch.ones(3, requires_grad=True).detach()
        predicted.sum().backward()

    return explained(program)


@job("custom functions", "calls of backward", "shapes of results")
def explains_a_custom_function():
    def program():
        Short.apply(torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)).sum().backward()

    return explained(program)


@job("refused parameters")
def explains_a_parameter_that_is_no_leaf():
    def program():
        scaled = torch.ones(3, requires_grad=True) * 2
        torch.optim.SGD([scaled], lr=0.1)

    return explained(program)


@job("functions under vmap")
def explains_random_numbers_under_vmap():
    def program():
        torch.vmap(torch.nn.functional.dropout)(torch.ones(3, 2))

    return explained(program)


@job("custom functions")
def explains_a_checkpoint():
    calls = []

    def block(x):
        calls.append(1)
        return x.sin().cos() if len(calls) == 1 else x.sin()

    def program():
        x = torch.ones(3, requires_grad=True)
        torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum().backward()

    return explained(program)


def graph():
    import backsight as bs

    network = model()
    loss = Double.apply(network(torch.ones(2, 4)), 3.0).square().mean()
    return bs.graph(loss, model=network), network


@job(
    "saved tensors",
    "shapes of results",
    "custom functions",
    "names from models",
    "lines of operations",
    "version counters",
    "names of hooks",
)
def shows_a_graph():
    return graph()[0].text()


@job("names from models")
def names_leaves():
    captured, _ = graph()
    return [leaf.name for leaf in captured.leaves]


@job(
    "saved tensors",
    "shapes of results",
    "custom functions",
    "names from models",
    "lines of operations",
    "version counters",
)
def draws_a_graph():
    return len(graph()[0].draw().svg())


@job("lines of operations", "names from models")
def audits():
    import backsight as bs

    network = model()
    unused = nn.Linear(4, 4)
    optimizer = torch.optim.SGD([*network.parameters(), *unused.parameters()], lr=0.1)
    found = bs.audit(network(torch.ones(2, 4)).mean(), optimizer=optimizer).findings
    return [[each.code, each.title] for each in found]


@job("lines of operations", "exact watch", "custom functions")
def watches_lines():
    import backsight as bs

    x = torch.ones(3, requires_grad=True)
    with bs.watch(level="exact"):
        y = Double.apply(x, 2.0)
        z = y.exp()
        nodes = bs.graph(z.sum()).nodes
    return [str(node.source).rpartition("/")[2] for node in nodes]


@job("lines of operations", "names from models")
def watches_modules():
    import backsight as bs

    network = model()
    with bs.watch(level="calls"):
        nodes = bs.graph(network(torch.ones(2, 4)).sum(), model=network).nodes
    return [str(node.module) for node in nodes]


@job(
    "recorded gradients",
    "recorded activations",
    "recorded steps",
    "recorded layouts",
    "recorded transforms",
    "names from models",
    "lines of operations",
    "calls of backward",
    "gradients read together",
)
def records():
    import backsight as bs

    network = model()
    optimizer = torch.optim.AdamW(network.parameters())
    with tempfile.TemporaryDirectory() as folder:
        with bs.record(network, run=f"{folder}/run"):
            for _ in range(3):
                optimizer.zero_grad()
                network(torch.ones(2, 4)).mean().backward()
                optimizer.step()
        run = bs.open_run(f"{folder}/run")
        latest = run.latest(as_="numpy")
        return [len(run.steps), sorted(set(map(str, latest["kind"])))]


def released(use):
    import backsight as bs

    weights = []
    for way in ("plain", "released"):
        network = model()
        optimizer = torch.optim.AdamW(network.parameters(), lr=0.1)
        release = bs.release(optimizer) if way == "released" else None
        for _ in range(2):
            use(network, optimizer, release)
        weights.append([p.detach().clone() for p in network.parameters()])
    return all(map(torch.equal, *weights))


@job("release")
def releases():
    def step(network, optimizer, release):
        network(torch.ones(2, 4)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return released(step)


@job("release", "release of clipped gradients")
def releases_clipped():
    def step(network, optimizer, release):
        if release is not None:
            release.clip(0.5, method="two-pass")
            release.backward(network(torch.ones(2, 4)).mean())
        else:
            network(torch.ones(2, 4)).mean().backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()

    return released(step)


@job("release", "release of clipped gradients", "release with a gradient scaler")
def releases_scaled():
    import backsight as bs

    network = model()
    optimizer = torch.optim.AdamW(network.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    release = bs.release(optimizer)
    release.clip(0.5, method="two-pass")
    scaler_loss = scaler.scale(network(torch.ones(2, 4)).mean())
    release.backward(scaler_loss, scaler=scaler)
    scaler.step(optimizer)
    return True


@job(
    "names from models",
    "lines of operations",
    "custom functions",
    "shapes of results",
    "profile of other threads",
    "cheap marks of a profile",
)
def profiles():
    import backsight as bs

    network = model()
    with bs.profile(network) as times:
        network(torch.ones(2, 4)).mean().backward()
    return sorted({row.op for row in times.rows})


@job("measured memory")
def measures_memory():
    import backsight as bs

    network = model()
    optimizer = torch.optim.AdamW(network.parameters())
    with bs.measure_memory(network, optimizer) as measured:
        network(torch.ones(2, 4)).mean().backward()
        optimizer.step()
    return measured.peak > 0


@job("memory forecast", "measured memory", "release", "names from models")
def forecasts():
    import backsight as bs

    return str(bs.forecast(model(), (torch.ones(2, 4), torch.ones(2, 1)), torch.optim.AdamW, loss=nn.MSELoss()))


@job("traces", "lines of operations", "names from models", "calls of backward", "version counters", "saved tensors")
def traces():
    import backsight as bs

    network = model()
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    with tempfile.TemporaryDirectory() as folder:
        with bs.trace(f"{folder}/trace") as trace:
            network(torch.ones(2, 4)).mean().backward()
            optimizer.step()
        held = bs.open_trace(trace.path)
    return [held.notes, sorted({each.phase for each in held.operations})]


@job("custom functions", "verify")
def verifies():
    import backsight as bs

    return [each.code for each in bs.verify(lambda x: Double.apply(x, 3.0), torch.rand(3).double()).findings]


@job(
    "custom functions",
    "verify of recorded graphs",
    "saved tensors",
    "shapes of results",
    "names from models",
    "version counters",
)
def verifies_a_graph():
    import backsight as bs

    return [each.code for each in bs.verify_graph(Double.apply(torch.rand(3, requires_grad=True), 3.0).sum()).findings]


@job(
    "saved tensors",
    "shapes of results",
    "custom functions",
    "names from models",
    "lines of operations",
    "version counters",
    "walk through checkpoints at once",
    "hooks shown in a walk",
)
def walks():
    import backsight as bs

    network = model()
    return str(bs.walk(network(torch.ones(2, 4)).square().mean(), model=network))


PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).square().mean()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
hidden = model[0](torch.ones(2, 4)).sigmoid()
result = (hidden * hidden).sum()
hidden.mul_(2)
result.backward()
"""


def runs_a_program() -> dict[str, Any]:
    """What `backsight run` makes of a program that trains and then fails: status, stdout, the code that it explains."""
    from backsight.cli import main

    folder = tempfile.mkdtemp()  # a TemporaryDirectory would go with the fork
    try:
        path = f"{folder}/train.py"
        with open(path, "w") as file:
            file.write(PROGRAM)
        status, out, err = _forked(lambda: main(["run", path]), folder)
        return {"status": status, "out": out, "err": err.replace(folder, "FOLDER")}
    finally:
        shutil.rmtree(folder)


def _forked(what: Callable[[], int | None], folder: str) -> tuple[int, str, str]:
    """Run something in a fork, to its very end; return its status and what it wrote."""
    files = [os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT) for name in ("out", "err")]
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.dup2(files[0], 1)
        os.dup2(files[1], 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        status = 1
        try:
            status = what() or 0
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else 1
        finally:
            import atexit

            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    _, status = os.waitpid(child, 0)
    told = []
    for name in ("out", "err"):
        with open(f"{folder}/{name}") as file:
            told.append(file.read())
    return os.waitstatus_to_exitcode(status), *told


def answer(without: list[str], left_out: list[str]) -> dict[str, Any]:
    """Run every job without these names, but for those that are left out, and say what each gave."""
    import backsight.surface as surface

    reach = surface.reach

    def blind(path: str) -> Any:
        if path in without:
            raise AttributeError(f"no {path}")
        return reach(path)

    surface.reach = blind
    given: dict[str, Any] = {}
    for name, (_, function) in JOBS.items():
        if name in left_out:
            continue
        try:
            with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                given[name] = ["gave", function()]
        except surface.Unavailable as lost:
            given[name] = ["refused", str(lost)]
        except Exception:
            given[name] = ["failed", traceback.format_exc(limit=-4)]
    for room in sorted(Path(surface.__file__).parent.rglob("_torch.py")):  # what jobs that are left out reach for
        names = room.relative_to(Path(surface.__file__).parents[1]).with_suffix("").parts
        importlib.import_module(".".join(names))
    given["run"] = runs_a_program()
    given["missing"] = [[need.path, need.feature] for need in surface.missing()]
    given["sentence"] = surface.sentence(surface.missing()) if surface.missing() else ""
    return given


def main() -> None:
    gc.collect()
    gc.freeze()  # no collection in a fork goes through PyTorch, and copies it
    for each in list(weakref.finalize._registry):  # libraries of PyTorch's, which each fork would take back at its end
        each.atexit = False
    for line in sys.stdin:
        without, left_out = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            try:
                told = answer(without, left_out)
            except BaseException:
                told = {"broken": traceback.format_exc()}
            with os.fdopen(write, "w") as pipe:
                json.dump(told, pipe)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        print(told or json.dumps({"broken": "the process died"}), flush=True)


if __name__ == "__main__":
    main()
