"""What `backsight run`, and `backsight run --record`, cost whole programs: the ratio to `python`, of their own loop.

    python bench/running.py                     # all programs; some minutes on an idle machine
    python bench/running.py --programs mlp      # one of them

Each program is a script that times its loop, the first steps included, in which a watch looks exactly. It is run by
python, by `backsight run` and by `backsight run --record`, in turn, each in a process of its own, with one thread.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _measure import median, report, simple_table, verdict

HEAD = """
import time, torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
"""

FOOT = """
step()
began = time.perf_counter()
for _ in range({steps}):
    step()
print(time.perf_counter() - began)
"""

MLP = """
model = nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1))
optimizer, x = torch.optim.Adam(model.parameters()), torch.randn(16, 50)
def step():
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""

POLICY = """
model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
optimizer, seen = torch.optim.Adam(model.parameters()), torch.randn(64, 4)
def step():
    with torch.no_grad():
        for _ in range(512):
            model(seen[:1])
    for _ in range(8):
        optimizer.zero_grad()
        model(seen).square().mean().backward()
        optimizer.step()
"""

SOLVER = """
model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer, start = torch.optim.Adam(model.parameters()), torch.randn(16, 2)
def step():
    y, h = start, 0.1
    for _ in range(20):
        k1 = model(y); k2 = model(y + h / 2 * k1); k3 = model(y + h / 2 * k2); k4 = model(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    optimizer.zero_grad()
    y.square().mean().backward()
    optimizer.step()
"""

GPT = """
layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, norm_first=True)
model = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
optimizer, x = torch.optim.AdamW(model.parameters()), torch.randn(4, 64, 128)
def step():
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""

ENCODER = """
layer = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, norm_first=True)
model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
optimizer, x = torch.optim.AdamW(model.parameters()), torch.randn(8, 32, 64)
def step():
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
"""

DATA = """
import random
data = [(torch.randn(50), k % 2) for k in range(200_000)]
model = nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1))
optimizer = torch.optim.Adam(model.parameters())
def step():
    chosen = random.sample(data, 16)
    x, y = torch.stack([x for x, _ in chosen]), torch.tensor([float(y) for _, y in chosen])
    optimizer.zero_grad()
    nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y).backward()
    optimizer.step()
"""

PROGRAMS = {
    "mlp": (MLP, 10_000, 1.25, "10,000 steps of a perceptron of 50 units"),
    "data": (
        DATA,
        10_000,
        2.0,
        "10,000 steps of the perceptron beside a list of 200,000 tensors, from which batches are drawn",
    ),
    "encoder": (ENCODER, 10_000, 1.02, "10,000 steps of a transformer of 2 layers of 64, about 5 ms each"),
    "gpt": (GPT, 200, 1.05, "200 steps of a transformer of 4 layers of 128"),
    "policy": (POLICY, 100, 1.2, "51,200 calls of a small policy without gradients, 800 updates"),
    "solver": (SOLVER, 300, 1.5, "300 steps of a Runge-Kutta solver of 20 steps"),
}
"""Each with the steps that are timed, the ratio that is promised for `backsight run`, and what it is."""

RECORDED = 2.0
"""The ratio that is promised for `backsight run --record`."""


def seconds(command: list[str], folder: str) -> float:
    """Return what a program says that its loop has taken."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--programs", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    table = simple_table("program", "python, s", "run", "run --record", title="Whole programs, as ratios to python")
    verdicts = []
    for name in options.programs:
        source, steps, promised, what = PROGRAMS[name]
        times: dict[str, list[float]] = {"python": [], "run": [], "record": []}
        for number in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "train.py").write_text(HEAD + source + FOOT.format(steps=steps), encoding="utf-8")
                ours = [sys.executable, "-m", "backsight", "run", "--quiet"]
                ways = {
                    "python": [sys.executable, "train.py"],
                    "run": [*ours, "train.py"],
                    "record": [*ours, "--record", "--run", f"run-{number}", "train.py"],
                }
                for way, command in ways.items():
                    times[way].append(seconds(command, folder))
        bare = median(times["python"])
        run, record = (median(times[way]) / bare for way in ("run", "record"))
        table.add_row(what, f"{bare:.2f}", f"{run:.2f}", f"{record:.2f}")
        verdicts.append(verdict(run <= promised, f"{name} under run: {run:.2f}, promised {promised}"))
        verdicts.append(verdict(record <= RECORDED, f"{name} under run --record: {record:.2f}, promised {RECORDED}"))
    report(table, *verdicts)


if __name__ == "__main__":
    main()
