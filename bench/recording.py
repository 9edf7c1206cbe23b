"""What recording costs a training step, beside what else records: the ratio to the bare step.

    python bench/recording.py                    # all models, all recorders that are installed; some minutes
    python bench/recording.py --models mlp       # one of them

Each recorder is measured in pairs of blocks, bare and recorded in turn on two equal models, and the median of the
ratios is told. Recorded are inputs, outputs, weights, gradients and the optimizer's state of every module at every
step, where the recorder can; what it leaves out is in its line. The peers: `pip install wandb tensorboard
torchember torchexplorer`. torchEmber needs `setuptools<80`, torchexplorer needs pygraphviz and with it graphviz.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import torch
from _measure import median, report, simple_table
from rich.table import Table
from torch import nn

import backsight as bs

AfterStep = Callable[[int], None]
Recorder = Callable[[nn.Module, torch.optim.Optimizer, Path], AbstractContextManager[AfterStep]]


@dataclass(frozen=True)
class Task:
    """A model to train, and how many steps make a block."""

    make: Callable[[], tuple[nn.Module, torch.Tensor]]
    optimizer: Callable[..., torch.optim.Optimizer]
    steps: int


def alexnet() -> tuple[nn.Module, torch.Tensor]:
    """Return the AlexNet of torchvision, written out, and a batch of 2 at 224."""
    sizes = [(3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1), (384, 256, 3, 1, 1), (256, 256, 3, 1, 1)]
    features: list[nn.Module] = []
    for number, (i, o, kernel, stride, padding) in enumerate(sizes):
        features += [nn.Conv2d(i, o, kernel, stride, padding), nn.ReLU(inplace=True)]
        if number in (0, 1, 4):
            features.append(nn.MaxPool2d(3, 2))
    classifier = [nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 4096)]
    head = [nn.ReLU(inplace=True), nn.Linear(4096, 1000)]
    model = nn.Sequential(nn.Sequential(*features), nn.AdaptiveAvgPool2d(6), nn.Flatten(), *classifier, *head)
    return model, torch.randn(2, 3, 224, 224)


def transformer() -> tuple[nn.Module, torch.Tensor]:
    """Return a transformer of 6 layers, d=384, and a batch of 8 sequences of 256."""
    layer = nn.TransformerEncoderLayer(384, 6, 4 * 384, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), torch.randn(8, 256, 384)


def mlp() -> tuple[nn.Module, torch.Tensor]:
    """Return a model so small that all of the cost is overhead."""
    return nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1)), torch.randn(5, 50)


TASKS = {
    "alexnet": Task(alexnet, lambda p: torch.optim.SGD(p, lr=1e-4), 2),
    "transformer": Task(transformer, lambda p: torch.optim.AdamW(p, lr=1e-4), 1),
    "mlp": Task(mlp, lambda p: torch.optim.Adam(p, lr=1e-4), 200),
}


def ours(**how: object) -> Recorder:
    @contextlib.contextmanager
    def record(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Iterator[AfterStep]:
        with bs.record(model, optimizer, folder / "run", **how) as rec:
            yield lambda step: None
        if rec.dropped:
            print(f"    {rec.dropped} steps were dropped")

    return record


@contextlib.contextmanager
def naive(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Iterator[AfterStep]:
    """Four `.item()` statistics by plain hooks, as JSON lines."""
    file = (folder / "log.jsonl").open("w")

    def note(name: str, tensor: torch.Tensor) -> None:
        t = tensor.detach().float()
        row = {
            "name": name,
            "mean": t.mean().item(),
            "std": t.std().item(),
            "min": t.min().item(),
            "max": t.max().item(),
        }
        file.write(json.dumps(row) + "\n")

    def call(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
            note(f"{name}.in", args[0])
            note(f"{name}.out", out[0] if isinstance(out, tuple) else out)

        return hook

    handles = [module.register_forward_hook(call(name)) for name, module in model.named_modules()]

    def after(step: int) -> None:
        for name, parameter in model.named_parameters():
            note(name, parameter)
            note(f"{name}.grad", parameter.grad)
            for key, value in optimizer.state[parameter].items():
                if value is not None and value.ndim:
                    note(f"{name}.{key}", value)

    yield after
    for handle in handles:
        handle.remove()
    file.close()


@contextlib.contextmanager
def tensorboard(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Iterator[AfterStep]:
    """Histograms of parameters and gradients."""
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))

    def after(step: int) -> None:
        for name, parameter in model.named_parameters():
            writer.add_histogram(name, parameter, step)
            writer.add_histogram(f"{name}.grad", parameter.grad, step)

    yield after
    writer.close()


@contextlib.contextmanager
def wandb(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Iterator[AfterStep]:
    """Histograms of parameters and gradients, offline."""
    import wandb

    os.environ["WANDB_SILENT"] = "true"
    run = wandb.init(mode="offline", dir=str(folder), settings=wandb.Settings(console="off"))
    run.watch(model, log="all", log_freq=1)
    yield lambda step: run.log({"step": step})
    run.unwatch(model)
    run.finish()


@contextlib.contextmanager
def torchexplorer(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Iterator[AfterStep]:
    """Histograms of inputs, outputs, their gradients, parameters and theirs, in memory."""
    import torchexplorer

    torchexplorer.watch(model, log_freq=1, backend="none")
    yield lambda step: None


@contextlib.contextmanager
def torchember(model: nn.Module, optimizer: torch.optim.Optimizer, folder: Path) -> Iterator[AfterStep]:
    """Mean, standard deviation, extremes and zeros of inputs, outputs, weights and gradients; logs under $HOME."""
    home = os.environ.get("HOME", "")
    os.environ["HOME"] = str(folder)
    try:
        from torchember.core import torchEmber

        with contextlib.redirect_stdout(io.StringIO()):
            ember = torchEmber(model)
        yield lambda step: ember.log_model()  # without it, weights and gradients are left out
    finally:
        os.environ["HOME"] = home


RECORDERS: dict[str, tuple[str | None, Recorder]] = {
    "backsight": (None, ours()),
    "backsight, no histograms": (None, ours(histograms=False)),
    "backsight, without state": (None, ours(taps=("input", "output", "weight", "grad"))),
    "backsight, and update": (None, ours(taps=("input", "output", "weight", "grad", "state", "update"))),
    "backsight, every=50": (None, ours(every=50)),
    "four .item() statistics": (None, naive),
    "TensorBoard histograms": ("tensorboard", tensorboard),
    "wandb.watch offline": ("wandb", wandb),
    "torchEmber": ("torchember", torchember),
    "torchexplorer": ("torchexplorer", torchexplorer),
}


class Trained:
    """A model that is trained a block of steps at a time."""

    def __init__(self, task: Task):
        torch.manual_seed(0)
        self.model, self.x = task.make()
        self.optimizer = task.optimizer(self.model.parameters())
        self.after: AfterStep = lambda step: None
        self.taken = 0

    def seconds(self, steps: int) -> float:
        """Take so many steps; return how long one took."""
        start = time.perf_counter()
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.model(self.x).square().mean().backward()
            self.optimizer.step()
            self.after(self.taken)
            self.taken += 1
        return (time.perf_counter() - start) / steps


def measured(task: Task, recorder: Recorder, rounds: int, steps: int) -> tuple[float, float, float]:
    """Return the seconds of a bare and of a recorded step, and the median of the ratios of pairs."""
    bare, recorded = Trained(task), Trained(task)
    with tempfile.TemporaryDirectory() as folder, recorder(recorded.model, recorded.optimizer, Path(folder)) as after:
        recorded.after = after
        pairs = []
        for number in range(rounds + 1):
            sides = [bare, recorded] if number % 2 else [recorded, bare]
            times = {side: side.seconds(steps) for side in sides}
            pairs.append((times[bare], times[recorded]))
    pairs = pairs[1:]  # the first is for warming up
    bare_seconds, recorded_seconds = (median(side) for side in zip(*pairs, strict=True))
    return bare_seconds, recorded_seconds, median(after / before for before, after in pairs)


def table(name: str, given: argparse.Namespace) -> Table:
    """Return what each recorder costs a step of one model."""
    task = TASKS[name]
    out = simple_table(name, "bare step, ms", "recorded, ms", "ratio", title="")
    for label, (needs, recorder) in RECORDERS.items():
        if given.only not in label or ("every=50" in label and task.steps < 50):
            continue
        if needs is not None and importlib.util.find_spec(needs) is None:
            out.add_row(label, "", "not installed", "")
            continue
        try:
            bare, recorded, ratio = measured(task, recorder, given.rounds, task.steps)
        except Exception as error:
            out.add_row(label, "", f"{type(error).__name__}: {str(error).splitlines()[0][:60]}", "")
            continue
        out.add_row(label, f"{bare * 1e3:.3f}", f"{recorded * 1e3:.3f}", f"{ratio:.3f}")
    return out


def main() -> None:
    arguments = argparse.ArgumentParser(description="What recording costs a training step.")
    arguments.add_argument("--models", nargs="+", default=list(TASKS), choices=list(TASKS))
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--only", default="", help="only recorders whose name contains this")
    given = arguments.parse_args()
    torch.set_num_threads(given.threads)
    warnings.simplefilter("ignore")
    report(f"torch {torch.__version__}, {given.threads} threads, medians of {given.rounds} pairs")
    for name in given.models:
        report(table(name, given))


if __name__ == "__main__":
    main()
