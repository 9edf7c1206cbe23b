"""A run of a million steps, written as its recording would have left it, in a minute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from backsight.runs import BINS, STATISTICS, RunWriter
from backsight.runs.coarse import coarse, parts_of_a_whole
from backsight.runs.places import rank_folder, sorted_name
from backsight.runs.schema import Columns
from backsight.runs.segments import write_sorted

LAYERS, KINDS = 50, ("weight", "grad", "output")
PER_LAYER = 2  # tensors of each kind
TENSORS = LAYERS * PER_LAYER * len(KINDS)
SEGMENT = 3 * 8192  # steps; a multiple of the longest stretch, so that summaries move with their rows
WITH_HISTOGRAMS = 0
BYTES = 17
"""What a row takes on the disk."""


def make(path: Path, steps: int) -> None:
    """Write the run: definitions and marks through `RunWriter`, segments as `tidying.py` leaves them."""
    writer = RunWriter(path, config={"script": "long.py"})
    names = [(f"layers.{k // PER_LAYER}.{['weight', 'bias'][k % PER_LAYER]}", k) for k in range(LAYERS * PER_LAYER)]
    for kind in KINDS:
        for name, _ in names:
            writer.tensor(name, kind, name.rpartition(".")[0], (512, 512), "float32")
    held = [{"name": "weight", "requires_grad": True}, {"name": "bias", "requires_grad": True}]
    layers = [_module(f"layers.{k}", "Linear", [], held) for k in range(LAYERS)]
    writer.tree([_module("", "Net", layers, [])])
    for step in range(steps):
        writer.mark(step, loss=3.0 / (1 + step / 1000) + 0.1 * ((step * 7919) % 101) / 101)
    writer.close()
    folder, rows = rank_folder(path, 0), template(min(SEGMENT, steps))
    several = parts_of_a_whole([{"id": k, "kind": KINDS[k // len(names)]} for k in range(TENSORS)])
    summaries = list(coarse(rows, several))
    for number, first in enumerate(range(0, steps, SEGMENT)):
        count = min(SEGMENT, steps - first)
        held = rows if count == len(rows["step"]) // TENSORS else template(count)
        levels = summaries if held is rows else list(coarse(held, several))
        write_sorted(folder / sorted_name(number, number), segment(held, levels, first, count))
        print(f"\r  {first + count:,} of {steps:,} steps", end="", flush=True)
    print()


def _module(name: str, kind: str, children: list[dict[str, Any]], held: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "type": kind, "children": children, "parameters": held, "buffers": []}


def template(steps: int) -> Columns:
    """Rows of all tensors, of so many steps from 0 on: gradients that shrink with depth, here and there NaN."""
    rng = np.random.default_rng(0)
    n = TENSORS * steps
    depth = np.repeat(np.arange(TENSORS) % (LAYERS * PER_LAYER) / (LAYERS * PER_LAYER), steps)
    std = (10.0 ** (-4 * depth) * rng.uniform(0.8, 1.25, n)).astype("f4")
    count = np.full(n, 512 * 512, "<i8")
    rows: Columns = {name: np.zeros(n, STATISTICS[name].str) for name in STATISTICS.names or ()}
    rows.update(count=count, mean=(0.01 * std).astype("<f8"), m2=(std * std * count.astype("f4")).astype("f4"))
    rows["m2"] = rows["m2"].astype("<f8")
    rows.update(min=(-4 * std).astype("<f8"), max=(4 * std).astype("<f8"))
    rows["nans"][:: SEGMENT * 37 + 1] = 1
    step = np.tile(np.arange(steps, dtype="<i8"), TENSORS)
    tensor = np.repeat(np.arange(TENSORS, dtype="<i8"), steps)
    return {"tensor": tensor, "step": step, "call": np.zeros(n, "<i8"), "order": tensor, **rows}


def segment(rows: Columns, levels: list[Columns], first: int, count: int) -> Iterator[tuple[str, Columns]]:
    """Yield the groups of a segment that begins at this step."""
    steps = first + np.arange(count, dtype="<i8")
    yield "S", {"step": steps, "time": 1.7e9 + 0.1 * steps}
    for tensor in range(TENSORS):
        held = {name: column[tensor * count : (tensor + 1) * count] for name, column in rows.items()}
        yield "R", {**held, "step": steps}
    counts = np.zeros((count, BINS), "<u4")
    counts[:, 30:48] = np.random.default_rng(1).multinomial(8192, 2.0 ** -np.arange(18, 0, -1), count)
    seen, zero = np.full(count, 8192, "<i8"), np.zeros(count, "<i8")
    number = np.full(count, WITH_HISTOGRAMS, "<i8")
    signs = {"signed": np.ones(count, "<i8"), "negatives": counts // 2}
    yield "H", {"tensor": number, "step": steps, "call": zero, "sampled": seen, "counts": counts, **signs}
    for level in levels:
        yield "C", {**level, "step": level["step"] + first}
