"""Statistics of one tensor over the steps, and what else there is of the same parameter."""

from __future__ import annotations

import numpy as np

from backsight.runs import Run
from backsight.viewer.packing import packed
from backsight.viewer.question import Answer, Asked, question

_LINES = ("mean", "std", "min", "max", "l2", "zero_fraction")


@question("lines")
def lines(run: Run, asked: Asked) -> Answer:
    """`tensor`, `kind`, and if wanted `stat` (several between commas), `first`, `last`, `rank`, `columns`.

    Of a column of several steps a line shows what `Run.heatmap` says: `min` and `max` are those of all of them. With
    `optional` 1 a run that has no such tensor answers with no column.
    """
    this = asked.word("tensor"), asked.word("kind")
    if asked.number("optional", 0, 0, 1) and all((each.name, each.kind) != this for each in run.tensors):
        return {"columns": 0, "lines": {}}
    stats = asked.words("stat") or list(_LINES)
    found = run.heatmaps(
        stats,
        asked.word("kind"),
        tensor=asked.word("tensor"),
        steps=asked.window(),
        rank=asked.rank,
        columns=asked.columns(600),
    )
    first = found[0]
    return {
        "tensor": asked.word("tensor"),
        "kind": asked.word("kind"),
        "stretch": first.stretch,
        "first": int(first.steps[0]) if len(first.steps) else 0,
        "columns": len(first.steps),
        "lines": {each.stat: packed(each.values[0], "f4") for each in found},
        "nonfinite": packed(np.minimum(first.nonfinite[0], 255), "u1"),
    }


@question("related")
def related(run: Run, asked: Asked) -> Answer:
    """`tensor`, `kind`: all that the run holds of the same parameter, or of the same inputs and outputs."""
    name, kind = asked.word("tensor"), asked.word("kind")
    this = next((each for each in run.tensors if (each.name, each.kind) == (name, kind)), None)
    if this is None:
        run.series(name, "mean", kind=kind, points=4)  # which says what is wrong, and what is close to it
    parameter = _parameter(name, kind)
    found = [each for each in run.tensors if _parameter(each.name, each.kind) == parameter]
    beside = [each for each in run.tensors if this and each.module == this.module and each not in found]
    return {
        "tensor": name,
        "kind": kind,
        "module": this.module if this else None,
        "shape": list(this.shape) if this and this.shape is not None else None,
        "dtype": this.dtype if this else None,
        "replicated": bool(this and this.replicated),
        "same": [[each.name, each.kind] for each in found],
        "beside": [[each.name, each.kind] for each in beside],
    }


def _parameter(name: str, kind: str) -> tuple[str, bool]:
    """Return the parameter that a tensor is about, and whether it is about one at all."""
    if kind == "state":
        return name.rpartition(".")[0], True
    return name, kind in ("weight", "grad", "averaged_grad", "update", "buffer")
