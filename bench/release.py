"""What stepping inside backward costs and saves: time as a ratio to the best ordinary loop, and peak memory.

    python bench/release.py                          # all models and ways that are installed; about ten minutes
    python bench/release.py --models perceptron      # one of them
    python bench/release.py --only backsight         # beside the ordinary loop only the ways with this in their name

All ways train one model with one optimizer state, in turn, in random order; told are medians of ratios within a
round. The best ordinary loop is AdamW(fused=True). Peak is what the allocator handed out above the start of a step:
gradients, activations and temporaries. The peers: `pip install torch-optimi lomo-optim`. Lomo's SGD has no state to
read and write, and does less work than the others.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from _measure import median, report, simple_table
from rich.progress import track
from torch import nn

import backsight as bs

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from gpt import gpt, next_token_batch

Finish = Callable[[torch.Tensor], None]
"""What follows the forward pass: backward and step, one way or another."""

State = dict[torch.Tensor, dict[str, torch.Tensor]]
"""The state of an optimizer, by parameter."""

Way = Callable[[nn.Module, State], AbstractContextManager[Finish]]


@dataclass(frozen=True)
class Task:
    """A model, a batch and a criterion; `steps` make a block that is timed."""

    make: Callable[[], tuple[nn.Module, torch.Tensor, torch.Tensor]]
    criterion: Callable[..., torch.Tensor]
    steps: int
    rounds: int


def perceptron() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return a model so small that all of the cost is overhead: 4 tensors."""
    return nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1)), torch.randn(5, 50), torch.randn(5, 1)


def layers() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return 100 layers of 256 x 256: 200 tensors, 25 MB of gradients."""
    stack = [layer for _ in range(100) for layer in (nn.Linear(256, 256), nn.ReLU())]
    return nn.Sequential(*stack[:-1]), torch.randn(32, 256), torch.randn(32, 256)


def transformer() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return a GPT of 110 million parameters and one line of 32 tokens."""
    return gpt(vocabulary=16384, width=768, layers=12, heads=12), *next_token_batch(16384, 1, 32)


TASKS = {
    "perceptron": Task(perceptron, F.mse_loss, 200, 21),
    "layers": Task(layers, F.mse_loss, 5, 21),
    "gpt": Task(transformer, F.cross_entropy, 1, 9),
}


def ordinary(**how: Any) -> Way:
    """Backward, then step."""

    @contextlib.contextmanager
    def way(model: nn.Module, shared: State) -> Iterator[Finish]:
        optimizer = _adamw(model.parameters(), shared, **how)

        def finish(loss: torch.Tensor) -> None:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        yield finish

    return way


def released(bucket: str | int, **how: Any) -> Way:
    """The ordinary loop with `bs.release` attached."""

    @contextlib.contextmanager
    def way(model: nn.Module, shared: State) -> Iterator[Finish]:
        optimizer = _adamw(model.parameters(), shared, **how)
        release = bs.release(optimizer, bucket=bucket)

        def finish(loss: torch.Tensor) -> None:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        yield finish
        release.remove()

    return way


def hooks(**how: Any) -> Way:
    """One optimizer and one hook per parameter, as PyTorch's tutorial does it."""

    @contextlib.contextmanager
    def way(model: nn.Module, shared: State) -> Iterator[Finish]:
        handles = []
        for parameter in model.parameters():
            optimizer = _adamw([parameter], shared, **how)

            def step(_: torch.Tensor, optimizer: torch.optim.Optimizer = optimizer) -> None:
                optimizer.step()
                optimizer.zero_grad()

            handles.append(parameter.register_post_accumulate_grad_hook(step))
        yield torch.Tensor.backward
        for handle in handles:
            handle.remove()

    return way


@contextlib.contextmanager
def private(model: nn.Module, shared: State) -> Iterator[Finish]:
    """torch.distributed.optim._apply_optimizer_in_backward."""
    from torch.distributed.optim import apply_optimizer_in_backward as module

    module._apply_optimizer_in_backward(torch.optim.AdamW, model.parameters(), {"lr": LR, "fused": True})
    for parameter in model.parameters():
        parameter._in_backward_optimizers[0].state[parameter] = shared[parameter]
    yield torch.Tensor.backward
    for parameter in model.parameters():
        for handle in module.param_to_optim_hook_handle_map.pop(parameter):
            handle.remove()
        module.param_to_acc_grad_map.pop(parameter)
        del parameter._in_backward_optimizers, parameter._optimizer_classes, parameter._optimizer_kwargs


@contextlib.contextmanager
def optimi(model: nn.Module, shared: State) -> Iterator[Finish]:
    """optimi's AdamW with its gradient release."""
    import optimi

    optimizer = optimi.AdamW(model.parameters(), lr=LR, gradient_release=True, triton=False)
    optimi.prepare_for_gradient_release(model, optimizer, ignore_existing_hooks=True)
    yield torch.Tensor.backward
    optimi.remove_gradient_release(model)


@contextlib.contextmanager
def lomo(model: nn.Module, shared: State) -> Iterator[Finish]:
    """Lomo: SGD without state, by tensor hooks that its optimizer never removes."""
    from lomo_optim import Lomo

    before = {parameter: dict(parameter._backward_hooks or {}) for parameter in model.parameters()}
    optimizer = Lomo(model, lr=LR)
    yield lambda loss: optimizer.fused_backward(loss, LR)
    for parameter, kept in before.items():
        for key in set(parameter._backward_hooks or {}) - set(kept):
            del parameter._backward_hooks[key]


LR = 1e-5

WAYS: dict[str, tuple[str | None, Way]] = {
    "ordinary, fused": (None, ordinary(fused=True)),
    "ordinary, loop": (None, ordinary(foreach=False)),
    "ordinary, foreach": (None, ordinary(foreach=True)),
    "backsight": (None, released("auto", fused=True)),
    "backsight, 16 MB": (None, released("16MB", fused=True)),
    "backsight, 1 MB": (None, released("1MB", fused=True)),
    "backsight, per parameter": (None, released(0, fused=True)),
    "backsight, foreach": (None, released("auto", foreach=True)),
    "hook per parameter, fused": (None, hooks(fused=True)),
    "hook per parameter, loop": (None, hooks(foreach=False)),
    "torch's private function": (None, private),
    "optimi": ("optimi", optimi),
    "Lomo (SGD)": ("lomo_optim", lomo),
}
BEST = "ordinary, fused"


def _adamw(parameters: Any, shared: State, **how: Any) -> torch.optim.AdamW:
    optimizer = torch.optim.AdamW(parameters, lr=LR, **how)
    optimizer.state = shared  # one state for all ways: a second one would not fit
    return optimizer


class Bench:
    """One model and one optimizer state, stepped in any of the ways."""

    def __init__(self, task: Task):
        torch.manual_seed(0)
        self.task = task
        self.model, *self.batch = task.make()
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=LR)
        self.step(lambda loss: (loss.backward(), optimizer.step(), optimizer.zero_grad()))
        self.shared = optimizer.state

    def step(self, finish: Finish) -> None:
        inputs, targets = self.batch
        finish(self.task.criterion(self.model(inputs), targets))

    def peak(self, way: Way) -> int:
        """Return the bytes above the start of a step."""
        with way(self.model, self.shared) as finish:
            self.step(finish)
            with bs.measure_memory() as memory:
                self.step(finish)
        return memory.peak - memory.start

    def seconds(self, way: Way) -> float:
        """Return the median of the times of a block of steps; the first step is not counted."""
        times = []
        with way(self.model, self.shared) as finish:
            self.step(finish)
            for _ in range(max(self.task.steps, 3)):
                begun = time.perf_counter()
                self.step(finish)
                times.append(time.perf_counter() - begun)
        return median(times)


def measured(name: str, ways: dict[str, Way], rounds: int | None) -> Any:
    """Return the table of one model."""
    task = TASKS[name]
    bench = Bench(task)
    count = sum(parameter.numel() for parameter in bench.model.parameters())
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in track(range(rounds or task.rounds), description=name, transient=True):
        for way in random.sample(list(ways), len(ways)):
            times[way].append(bench.seconds(ways[way]))
    table = simple_table(f"{name}, {count:,} parameters", "ms a step", "ratio", "quartiles", "peak MB", title="")
    for way in ways:
        ratios = [one / best for one, best in zip(times[way], times[BEST], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        table.add_row(
            way,
            f"{median(times[way]) * 1e3:.3f}",
            f"{middle:.3f}",
            f"{low:.2f}-{high:.2f}",
            f"{bench.peak(ways[way]) / 2**20:.1f}",
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="only ways whose name contains this, beside the best ordinary one")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    warnings.simplefilter("ignore")
    ways = {
        name: way
        for name, (needs, way) in WAYS.items()
        if (given.only in name or name == BEST) and (needs is None or importlib.util.find_spec(needs) is not None)
    }
    print(f"torch {torch.__version__}, {given.threads} threads; left out: {', '.join(set(WAYS) - set(ways)) or 'none'}")
    for name in given.models:
        report(measured(name, ways, given.rounds))


if __name__ == "__main__":
    main()
