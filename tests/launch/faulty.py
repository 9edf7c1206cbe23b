"""A training under `backsight run`, once for each function of ours that it reaches, with a fault in that function.

`python faulty.py KIND NEAR FAR` prints a line of JSON for each that makes a difference: the function, and what was not
as under plain Python; at last the number of faults. KIND is the exception that is raised there. One in NEAR of the
functions that PyTorch and Python call is tried, and one in FAR of those behind them. Everything runs in forks, in which
PyTorch is imported already.
"""

from __future__ import annotations

import builtins
import gc
import json
import os
import shutil
import sys
import tempfile
import traceback
import types
import weakref
from pathlib import Path

import backsight

PACKAGE = str(Path(backsight.__file__).parent)

PROGRAM = """
import sys, threading, torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None

def work(name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for step in range(5):
        x = torch.randn(6, 4)
        hidden = Double.apply(model[0](x), 2.0)
        loss = checkpoint(lambda h: model[1:](h.clone()), hidden, use_reentrant=False).square().mean()
        loss = loss + model(x).square().mean() + 0 * hidden.detach().sum()
        loss.register_hook(lambda g: g)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            print(name, step, loss.item(), model[0].weight.data.add_(0.0).sum().item())

work("main")
thread = threading.Thread(target=work, args=("thread",))
thread.start()
thread.join()
h = torch.ones(2, requires_grad=True).exp()
loss = h.sum()
h.mul_(2)
try:
    loss.backward()
except RuntimeError as error:
    print(type(error), len(error.args))
torch.ones(2).requires_grad_().mul(2).grad
nn.functional.mse_loss(torch.ones(2, requires_grad=True), torch.ones(2, 1))
print(sys.gettrace() is None, torch.is_grad_enabled(), torch.initial_seed())
"""

WAYS = {"": (), "sys.exit(3)\n": ("nonfinite", "leaks"), "loss.backward()\n": ()}
"""How the program ends, and with which options it is observed."""

CALLED = ("tracing", "launch")
"""Rooms whose functions PyTorch and Python call."""

RUNS_IT = ("launch/program.py", "launch/observer.py", "launch/uncaught.py")
"""What runs the program, and bears what fails: without it there is no program."""

CALLS = frozenset(
    {f"tracing/functions.py {name}" for name in ("__torch_function__", "_thoroughly", "_noted", "_backward", "run")}
    | {f"tracing/functions.py {name}" for name in ("_as_caller", "_guarded", "_lightly")}
    | {"launch/first_steps.py guarded", "tracing/watch.py guarded", "tracing/exact.py __del__"}
    | {"tracing/callers.py passing_for", "tracing/callers.py _code_at", "tracing/functions.py _passing"}
)
"""What makes a call for the program and bears what fails: each is a frame between the program and PyTorch.

`passing_for`, `_code_at` and `_passing` are what passes for the caller: where they fail, the program runs on, and a
warning names our line.
"""

PROMISED = ("surface.py",)
"""What tells which parts of PyTorch are there: without them other parts of a watch, which Python lets a program see."""


CRASHED = 99


def forked(work):
    """Run `work` in a fork; return its status, and what it wrote."""
    folder = tempfile.mkdtemp()  # one of TemporaryDirectory would be removed by the fork, as it ends
    try:
        paths = [os.path.join(folder, name) for name in ("out", "err")]
        child = os.fork()
        if not child:
            status = CRASHED
            try:
                for number, path in enumerate(paths, start=1):
                    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
                sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
                sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
                status = work()
            except SystemExit as leaving:
                status = leaving.code if type(leaving.code) is int else 1
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status), *(Path(path).read_text() for path in paths)
    finally:
        shutil.rmtree(folder)


def observed(path, prepare, *options):
    """Run the program as `backsight run` does, to the very end."""
    import atexit

    from backsight.launch import run_script
    from backsight.launch.training import TrainingObserver

    def work():
        observer = TrainingObserver(**dict.fromkeys(options, True))
        prepare()
        try:
            return run_script(str(path), [], observer)
        finally:
            atexit._run_exitfuncs()

    return forked(work)


def reached(path, found, *options):
    """Note in the file `found` which functions of ours run while the program does."""

    def prepare():
        import threading

        seen = set()

        def profile(frame, event, argument):
            if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
                seen.add((frame.f_code.co_filename, frame.f_code.co_firstlineno, frame.f_code.co_name))

        threading.setprofile(profile)
        sys.setprofile(profile)
        import atexit

        atexit.register(lambda: Path(found).write_text(json.dumps(sorted(seen))))

    observed(path, prepare, *options)
    return [tuple(each) for each in json.loads(Path(found).read_text())]


def spoil(key, kind):
    """Have every function made of a code raise; its closures, and those to come, too."""

    def raising(code):
        names = ", ".join(code.co_freevars)
        lines = ["def around():", f"    {names} = {'0, ' * len(code.co_freevars)}"] if names else ["def around():"]
        lines += ["    def fault(*_, **__):", f"        if 0: {names or 0}", "        raise kind('a fault of ours')"]
        scope = {}
        exec(compile("\n".join([*lines, "    return fault"]), code.co_filename, "exec"), scope)
        made = scope["around"]().__code__
        return made.replace(co_name=code.co_name, co_consts=made.co_consts)

    builtins.kind = kind
    for function in [each for each in gc.get_objects() if type(each) is types.FunctionType]:
        code = function.__code__
        if (code.co_filename, code.co_firstlineno, code.co_name) == key:
            function.__code__ = raising(code)


def different(plain, seen):
    """Return what the program can tell, or whoever ran it: nothing but a line or two of ours on stderr."""
    told = [name for name, a, b in zip(("status", "stdout"), plain[:2], seen[:2], strict=True) if a != b]
    error = seen[2]
    for line in plain[2].splitlines():
        if line not in error:
            told.append(f"lacks {line!r}")
        error = error.replace(f"{line}\n", "", 1)
    extra = [line for line in error.splitlines() if "a fault of ours" in line]
    if len(extra) > len(set(extra)) or len(extra) > 3:  # by the watch, the audits, and what explains errors
        told.append(f"told {len(extra)} times")
    if "Exception ignored" in error or error.count("Traceback") > plain[2].count("Traceback"):
        told.append(f"a traceback: {error[-600:]}")
    return told


def tried(keys, near, far):
    """Return the functions to spoil, each with its name."""
    counts = {True: 0, False: 0}
    for key in keys:
        file = os.path.relpath(key[0], PACKAGE)
        if key[2].startswith("<") or file in (*RUNS_IT, *PROMISED) or f"{file} {key[2]}" in CALLS:
            continue
        called = file.split(os.sep)[0] in CALLED
        counts[called] += 1
        if counts[called] % (near if called else far) == 0:
            yield key, f"{file}:{key[1]} {key[2]}"


def main(kind, near, far):
    import torch._dynamo  # an optimizer's constructor does: here once, and not in every fork

    import backsight.launch.first_steps  # imported when a program imports torch: its functions are there to be spoiled

    assert torch._dynamo and backsight.launch.first_steps
    for each in list(weakref.finalize._registry):  # libraries of PyTorch's, which each fork would take back at its end
        each.atexit = False
    folder = tempfile.mkdtemp()
    count = 0
    try:
        path = Path(folder) / "train.py"
        for last, options in WAYS.items():
            path.write_text(PROGRAM + last)
            plain = forked(lambda: run_plainly(path))
            for key, name in tried(reached(path, Path(folder) / "reached", *options), int(near), int(far)):
                count += 1
                seen = observed(path, lambda key=key: spoil(key, getattr(builtins, kind)), *options)
                if told := different(plain, seen):
                    print(json.dumps([name, last, told]), flush=True)
        print(json.dumps(count))
    finally:
        shutil.rmtree(folder)


def run_plainly(path):
    """As plain Python would, in this process: with the launcher alone, whose likeness to it has tests of its own."""
    from driver import Silent

    from backsight.launch import run_script

    return run_script(str(path), [], Silent())


if __name__ == "__main__":
    main(*sys.argv[1:])
