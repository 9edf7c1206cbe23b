"""Record the small run that later releases have to read, by the release that is installed.

    python tests/runs/recordings/make.py

writes `format-1-by-0.1.0` beside this file: the version of the format, and of the release. Run it once for each release
that writes another format, and commit the folder; what is in one is never changed.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch

import backsight as bs
from backsight.runs import BINS, STATISTICS, RunWriter
from backsight.runs.places import VERSION

HERE = Path(__file__).parent


def train(path: Path) -> None:
    """A training as a user records it: modules, a graph, gradients, updates."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    rec = bs.record(model, optimizer, run=path)
    for step in range(6):
        rec.mark(epoch=step // 3)
        optimizer.zero_grad()
        loss = (model(torch.randn(8, 4)) - 1).square().mean()
        loss.backward()
        rec.mark(loss=loss)
        optimizer.step()
    rec.close()


def write(path: Path, *, close: bool) -> None:
    """Two ranks that know what they hold; one that is not closed stays as a kill would leave it."""
    for rank in range(2):
        writer = RunWriter(path, rank=rank, world=2, config={"lr": 0.1}, environment={"host": "example"})
        tensors = [writer.tensor(f"t{k}", kind, f"m{k}", (8,), "float32") for k, kind in enumerate(("grad", "output"))]
        metric = writer.metric("gap", merge="sum")
        for step in range(5):
            rows = np.zeros(2, STATISTICS)
            rows["count"], rows["mean"], rows["m2"] = 8, step + rank / 4, 0.5
            rows["min"], rows["max"], rows["nans"] = step - 1, step + 1, [step == 4, 0]
            counts = np.zeros((2, BINS), "<u4")
            counts[:, step] = 8
            writer.append(step, tensors, rows, histograms=counts)
            writer.values(step, metric, tensors, [step, rank])
            writer.mark(step, loss=1 / (step + 1), phase="train")
            writer.flush()
        writer.event("resumed", step=2, why="example")
        if close:
            writer.close()


def facts(path: Path) -> dict[str, object]:
    """What any later release has to say of a run."""
    run = bs.open_run(path)
    held = run.frame(as_="numpy")
    numbers = {name: held[name].tolist() for name in ("tensor", "kind", "step", "call", "mean", "l2", "nans", "count")}
    return {
        "steps": run.steps.tolist(),
        "tensors": [[each.name, each.kind, list(each.shape or ())] for each in run.tensors],
        "rows": {name: [repr(each) for each in column] for name, column in numbers.items()},
        "marks": [[mark.step, mark.rank, mark.tags] for mark in run.marks],
        "modules": [node["name"] for node in run.tree or ()],
        "nodes": None if run.graph is None else len(run.graph.nodes),
        "metrics": list(run.metrics),
        "damage": [run.damage.blocks, run.damage.lines, run.damage.torn],
    }


def make() -> Path:
    sys.orig_argv = ["python", "make.py"]  # which a recording keeps, and nobody wants to know more of this machine
    folder = HERE / f"format-{VERSION}-by-{bs.__version__}"
    shutil.rmtree(folder, ignore_errors=True)
    train(folder / "trained")
    write(folder / "closed", close=True)
    write(folder / "killed", close=False)
    told = {path.name: facts(path) for path in sorted(folder.iterdir())}
    (folder / "facts.json").write_text(json.dumps(told, indent=1) + "\n", encoding="ascii")
    return folder


if __name__ == "__main__":
    print(make())
