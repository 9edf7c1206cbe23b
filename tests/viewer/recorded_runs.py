"""Runs for the viewer to show: a real training, one that fails, and what a hostile program would record."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import backsight as bs
from backsight.runs import STATISTICS, RunWriter
from backsight.tape import capture, document

HOSTILE = "<img src=x onerror=alert(1)>'\"&\u202e\n" + "x" * 300


class Net(nn.Module):
    """A small network with blocks in blocks."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(64, 32)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(3)])
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def digits(
    folder: Path,
    steps: int,
    *,
    seed: int = 0,
    lr: float = 3e-3,
    nan_at: int | None = None,
    measure_at: int | None = None,
) -> Path:
    """Train on the digits and record it, and the memory of one step."""
    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
    torch.manual_seed(seed)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    with bs.record(model, optimizer, folder) as rec:
        for step in range(steps):
            batch = torch.randint(len(x), (32,))
            with bs.measure_memory(model, optimizer) if step == measure_at else nullcontext() as measured:
                loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
                if step == nan_at:
                    loss = loss * math.nan
                rec.mark(loss=loss.item(), phase="warm" if step < 5 else "train")
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if measured is not None:
                rec.memory(measured)
    return folder


def hostile_graph() -> dict:
    """Return a graph in which everything that is a word is markup."""
    graph = capture(nn.Linear(2, 2)(torch.ones(1, 2)).relu())
    names = (f"{HOSTILE}.grad", f"{HOSTILE}.weight")
    leaves = [replace(leaf, name=HOSTILE, names=names, owner=HOSTILE, module=HOSTILE) for leaf in graph.leaves]
    held = document(graph.renamed(leaves, [HOSTILE]))
    held["types"] = [[HOSTILE, kind, HOSTILE] for _, kind, _ in held["types"]]
    held["modules"], held["module"] = [HOSTILE], [0] * len(graph)
    return held


def hostile_memory() -> dict:
    """Return the memory of a step in which everything that is a word is markup."""
    model = nn.Linear(2, 2)
    held = bs.measure_memory(lambda: model(torch.ones(1, 2)).sum().backward(), model=model).document()
    for block in held["blocks"]:
        block[1] = block[5] = block[6] = block[7] = block[8] = block[11] = HOSTILE
    return {**held, "failed": HOSTILE, "others": [HOSTILE]}


def hostile(folder: Path, ranks: int = 4, steps: int = 6) -> Path:
    """Write what no training should: names that are markup, nothing but NaN, and a tail that is cut off."""
    for rank in range(ranks):
        writer = RunWriter(folder, rank=rank, world=ranks, config={"script": HOSTILE}, environment={HOSTILE: HOSTILE})
        writer.tree([{"name": "", "type": HOSTILE, "children": [{"name": HOSTILE, "type": HOSTILE}]}])
        writer.graph(0, hostile_graph())
        writer.memory(0, hostile_memory())
        kinds = ("grad", "weight", HOSTILE)
        numbers = [writer.tensor(f"{HOSTILE}.{kind}", kind, HOSTILE, (2,), "float32") for kind in kinds]
        rows = np.zeros(3, STATISTICS)
        rows["count"] = rows["nans"] = 2
        for step in range(steps):
            writer.append(step, numbers, rows)
            writer.mark(step, **{HOSTILE: HOSTILE, "loss": math.nan, "big": 1e308})
            writer.event(HOSTILE, step=step, what=HOSTILE)
        writer.flush()
        if rank == ranks - 1:
            live = next((folder / f"rank-{rank:05d}").glob("*.live"))
            with live.open("ab") as file:
                file.write(b"BSB1R torn")
        else:
            writer.close()
    return folder
