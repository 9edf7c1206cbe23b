"""Four ways to step an optimizer, and what each costs: gradients all at once, or freed as soon as they are used.

    python examples/release_study.py            # a 50-50-1 perceptron, and a GPT of 110 million parameters
    python examples/release_study.py --small    # the perceptron, and a GPT of 2 million parameters

After LOMO (arXiv 2306.09782), a parameter can be stepped as soon as backward has computed its gradient, so that the
gradients never exist all at once. This script does it three times: by hand, layer by layer; by one optimizer and one
hook per parameter; and by `bs.release`. All end with the weights of the ordinary loop, bit for bit. A fifth way is
the hook with its well-known bug: a lambda in a loop sees the loop's last optimizer, and trains the last tensor only.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from gpt import gpt, next_token_batch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import nn

import backsight as bs


class Ordinary:
    """backward() computes all gradients, then the optimizer takes all steps."""

    def __init__(self, stages, make_optimizer):
        self.model = stages
        self.optimizer = make_optimizer(stages.parameters())

    def step(self, inputs, targets, criterion):
        criterion(self.model(inputs), targets).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class LayerByLayer:
    """The graph is cut between the stages, and each is led backwards and stepped by an optimizer of its own."""

    def __init__(self, stages, make_optimizer):
        self.stages = stages
        self.optimizers = [make_optimizer(stage.parameters()) for stage in stages]

    def step(self, inputs, targets, criterion):
        cuts, outputs = [], []
        x = inputs
        for stage in self.stages:
            x = x.detach().requires_grad_(x.is_floating_point())
            cuts.append(x)
            x = stage(x)
            outputs.append(x)
        outputs[-1], error = criterion(x, targets), None
        del x
        while outputs:
            outputs.pop().backward(error)  # no further than the cut
            optimizer = self.optimizers[len(outputs)]
            optimizer.step()
            optimizer.zero_grad()
            error = cuts.pop().grad  # the error signal at the output of the stage before


class Hooks:
    """One optimizer and one hook per parameter: stepped and freed the moment its gradient is there."""

    def __init__(self, stages, make_optimizer):
        self.model = stages
        for parameter in stages.parameters():
            optimizer = make_optimizer([parameter])

            def step_and_free(_, optimizer=optimizer):  # bound now, not when the hook runs
                optimizer.step()
                optimizer.zero_grad()

            parameter.register_post_accumulate_grad_hook(step_and_free)

    def step(self, inputs, targets, criterion):
        criterion(self.model(inputs), targets).backward()


class LateBoundHooks(Hooks):
    """The same with the bug: each hook looks `optimizer` up when it runs, and finds the last one."""

    def __init__(self, stages, make_optimizer):
        self.model = stages
        for parameter in stages.parameters():
            optimizer = make_optimizer([parameter])

            def step_and_free(_):
                optimizer.step()  # noqa: B023 - the bug that this class shows
                optimizer.zero_grad()  # noqa: B023

            parameter.register_post_accumulate_grad_hook(step_and_free)


class Released(Ordinary):
    """The ordinary loop, to the letter, with `bs.release` attached to its optimizer."""

    def __init__(self, stages, make_optimizer):
        super().__init__(stages, make_optimizer)
        self.release = bs.release(self.optimizer, bucket="1MB")


WAYS = {
    "ordinary": Ordinary,
    "layer by layer": LayerByLayer,
    "hook per parameter": Hooks,
    "hook, late binding": LateBoundHooks,
    "bs.release": Released,
}


def perceptron():
    """Return the 50-50-1 perceptron, a batch of 5 and its criterion."""
    stages = nn.Sequential(nn.Linear(50, 50), nn.Sequential(nn.ReLU(), nn.Linear(50, 1)))
    return stages, (torch.randn(5, 50), torch.randn(5, 1)), F.mse_loss


def transformer(vocabulary, width, layers, heads):
    """Return a GPT, one line of 32 tokens and its criterion."""
    return gpt(vocabulary, width, layers, heads), next_token_batch(vocabulary, 1, 32), F.cross_entropy


@dataclass(frozen=True)
class Task:
    """What is trained, how it is stepped, and how long: `check` steps for equality, `rounds` timed blocks of steps."""

    title: str
    make: Callable
    optimizer: Callable
    check: int
    rounds: int
    block: int

    def begin(self, way):
        """Return the stages and a training step, the same for every way but for the way it steps."""
        torch.manual_seed(0)
        stages, batch, criterion = self.make()
        loop = WAYS[way](stages, self.optimizer)
        return stages, lambda: loop.step(*batch, criterion)


def outcome(task, way):
    """Return the weights after the steps of the check, how many of them moved, and one more step's peak in bytes."""
    stages, step = task.begin(way)
    before = [weight.detach().clone() for weight in stages.parameters()]
    for _ in range(task.check):
        step()
    after = [weight.detach().clone() for weight in stages.parameters()]
    moved = sum(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    del before
    with bs.measure_memory() as memory:
        step()
    return after, moved, memory.peak - memory.start


def seconds(task):
    """Return the times of a step in each way, measured in turn, so that a slow moment hits them all."""
    steps = {way: task.begin(way)[1] for way in WAYS}
    times = {way: [] for way in WAYS}
    for _ in track(range(task.rounds), description=f"{task.title}: time", transient=True):
        for way in random.sample(list(WAYS), len(WAYS)):
            steps[way]()  # not timed: fills the caches with this way's tensors
            begun = time.perf_counter()
            for _ in range(task.block):
                steps[way]()
            times[way].append((time.perf_counter() - begun) / task.block)
    return times


def study(task):
    """Return the table of one task, having checked that all ways but the one with the bug end with the same weights.

    Peak is above what was held before the step; moved are the tensors whose values the steps have changed.
    """
    title = f"{task.title}; weights after {task.check} steps"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("way to step", no_wrap=True)
    for column in ("ms a step", "ratio", "peak MiB", "moved", "weights"):
        table.add_column(column, justify="right", no_wrap=True)
    times = seconds(task)
    for way in track(WAYS, description=f"{task.title}: equality and memory", transient=True):
        weights, moved, peak = outcome(task, way)
        if way == "ordinary":
            expected = weights
        equal = all(map(torch.equal, weights, expected))
        assert equal or way == "hook, late binding", f"{way} does not end with the weights of the ordinary loop"
        table.add_row(
            way,
            f"{statistics.median(times[way]) * 1e3:.3g}",
            f"{statistics.median(a / b for a, b in zip(times[way], times['ordinary'], strict=True)):.2f}",
            f"{peak / 2**20:.2f}",
            f"{moved} of {len(weights)}",
            "bit-identical" if equal else "different",
        )
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a GPT of 2 million parameters instead of 110 million")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # times that can be compared
    console = Console()

    def adam(parameters):
        return torch.optim.Adam(parameters, lr=1e-3)

    def fused_adamw(parameters):
        return torch.optim.AdamW(parameters, lr=1e-4, fused=True)

    console.print(study(Task("Perceptron 50-50-1, Adam", perceptron, adam, check=20, rounds=9, block=200)))
    shape, size = ((1024, 192, 4, 6), "2 million") if arguments.small else ((16384, 768, 12, 12), "110 million")
    title = f"GPT, {size} parameters, fused AdamW"
    console.print(study(Task(title, lambda: transformer(*shape), fused_adamw, check=3, rounds=5, block=1)))


if __name__ == "__main__":
    main()
