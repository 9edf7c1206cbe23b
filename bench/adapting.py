"""What `backsight run --record` costs where operations are small: the ratio to the bare program, and what is recorded.

    python bench/adapting.py                    # all programs; a minute or two
    python bench/adapting.py --programs mlp     # one of them

Each program runs in blocks, bare and recorded in turn, in one process: as `--record` does it, so every model that the
program calls, what optimizers hold, and as many steps as a tenth of the time allows. The watch of `backsight run`,
which explains errors, is not part of it: see bench/watch.py.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from _measure import report, simple_table
from torch import nn

from backsight.launch.models import Models
from backsight.recording.program import ProgramRecording

Step = Callable[[], None]


def rollout() -> tuple[Step, int]:
    """Return 512 calls of a small policy without gradients, of some 36 µs each, and 8 updates."""
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    optimizer, seen = torch.optim.Adam(policy.parameters()), torch.randn(64, 4)

    def step() -> None:
        with torch.no_grad():
            for _ in range(512):
                policy(seen[:1])
        for _ in range(8):
            optimizer.zero_grad()
            policy(seen).square().mean().backward()
            optimizer.step()

    return step, 4


def solver() -> tuple[Step, int]:
    """Return a step that calls one small module two thousand times, as the solver of an ODE does."""
    field = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer, begin = torch.optim.Adam(field.parameters()), torch.randn(32, 2)

    def step() -> None:
        y = begin
        for _ in range(2000):
            y = y + field(y) / 2000
        optimizer.zero_grad()
        y.square().mean().backward()
        optimizer.step()

    return step, 2


def mlp() -> tuple[Step, int]:
    """Return a step of half a millisecond."""
    model = nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1))
    optimizer, x = torch.optim.Adam(model.parameters()), torch.randn(16, 50)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step, 500


def gpt() -> tuple[Step, int]:
    """Return a step of a small transformer, of some 30 ms."""
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, norm_first=True)
    model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    optimizer, x = torch.optim.AdamW(model.parameters()), torch.randn(4, 64, 128)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step, 20


PROGRAMS = {"rollout": rollout, "solver": solver, "mlp": mlp, "gpt": gpt}


@contextmanager
def recorded(folder: Path) -> Iterator[ProgramRecording]:
    """Record as `backsight run --record` does."""

    def failed(failure: Exception) -> None:
        raise failure

    recording = ProgramRecording(folder, print, every="auto")
    models = Models(recording.join, failed, lambda: recording.steps)
    recording.beside = (models,)
    yield recording
    models.stop()
    recording.close()


def timed(step: Step, steps: int) -> float:
    """Return the seconds that a step takes."""
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - began) / steps


def compared(make: Callable[[], tuple[Step, int]], seconds: float) -> tuple[float, float, str]:
    """Return the time of a bare step, the ratio of a recorded one, and what was recorded.

    The bare blocks run on a program of their own beside the recorded ones: a recording follows what it costs, so it
    has to be left to go on, and hooks of it that do nothing meanwhile are part of neither.
    """
    bare, steps = make()
    timed(bare, steps)
    times: tuple[list[float], list[float]] = [], []
    with tempfile.TemporaryDirectory() as folder:
        observed, _ = make()
        began = time.perf_counter()
        with recorded(Path(folder) / "run") as recording:
            while time.perf_counter() - began < seconds:
                times[1].append(timed(observed, steps))
            assert recording.recorder is not None
            told = f"{recording.recorder.recorded:,} of {recording.recorder.steps:,} steps, "
            told += f"1 in {recording.recorder.every} at the end"
        began = time.perf_counter()
        while time.perf_counter() - began < seconds / 2:
            times[0].append(timed(bare, steps))
    return statistics.median(times[0]), statistics.mean(times[1]) / statistics.mean(times[0]), told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--seconds", type=float, default=12.0, help="how long each is recorded")
    options = parser.parse_args()
    table = simple_table("program", "bare step", "ratio", "recorded", title="What --record costs where it adapts")
    for name in options.programs:
        seconds, ratio, told = compared(PROGRAMS[name], options.seconds)
        table.add_row(name, f"{seconds * 1e3:.2f} ms", f"{ratio:.2f}", told)
    report(table)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    main()
