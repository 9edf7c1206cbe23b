"""One file with a run in it: the page and the answers that it needs, and nothing that is fetched."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from backsight.runs import DamagedRun, NotInRun, Run
from backsight.viewer.page import report as page
from backsight.viewer.question import Answer, Asked, answering

MOST_BYTES = 2_500_000
"""What the answers of a report may take; tensors that find no room are said to be in the run."""

COLUMNS, MAGNITUDE_COLUMNS = 300, 240
"""What the page asks for in a report: see `heatmap.js` and `tensor.js`."""

_STATS = ("l2", "std", "mean", "absmax", "zero_fraction", "nonfinite")
_KINDS = ("averaged_grad", "grad", "weight", "output", "update", "state", "input")


def report_page(run: Run) -> str:
    """Return a page that shows a run by itself: heatmaps, findings, the tensors that matter, and where it was made.

    Tensors that findings speak of come first, then gradients, weights and outputs in the order of the modules, as long
    as the page stays small enough to be mailed.
    """
    answers: dict[str, Answer] = {}
    left = MOST_BYTES
    for question, given in _questions(run.overview):
        try:
            answer = answering(question)(
                run if question == "about" else run.overview, Asked({key: str(value) for key, value in given.items()})
            )
        except (NotInRun, DamagedRun):  # a tensor that is in the findings only, or a file that cannot be read
            continue
        size = len(json.dumps(answer, allow_nan=False))
        if size <= left:
            answers[spelled(question, given)] = answer
            left -= size
        elif question == "lines":
            break
    return page(run.name, {"name": run.name, "answers": answers})


def to_report(run: Run, path: str | os.PathLike[str]) -> Path:
    """Write `report_page` to a file, which appears when it is whole, and return its path.

    Raises:
        ValueError: if the file is not called .html.
        OSError: if it cannot be written.
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a report is one HTML file, so its name ends in .html, not {target}.")
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        unfinished.write_text(report_page(run), encoding="utf-8", errors="backslashreplace")
        os.replace(unfinished, target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return target


def spelled(question: str, given: Mapping[str, Any]) -> str:
    """Return the key of an answer, as `source.js` spells it."""
    return f"{question}?" + "&".join(f"{key}={given[key]}" for key in sorted(given))


def _questions(run: Run) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a page asks, what matters most first."""
    yield "about", {}
    yield "marks", {}
    yield "metrics", {"columns": COLUMNS}
    yield "settings", {}
    yield "findings", {}
    yield "graph", {}
    yield "memory", {}
    kinds = {tensor.kind for tensor in run.tensors}
    for kind in (*_KINDS, *sorted(kinds.difference(_KINDS))):
        if kind in kinds:
            for stat in _STATS:
                yield "heatmap", {"kind": kind, "stat": stat, "columns": COLUMNS}
    for name, kind in _in_order_of_matter(run):
        this = {"tensor": name, "kind": kind}
        yield "related", this
        yield "lines", {**this, "columns": COLUMNS}
        yield "histograms", {**this, "columns": MAGNITUDE_COLUMNS}


def _in_order_of_matter(run: Run) -> list[tuple[str, str]]:
    found = answering("findings")(run, Asked({}))["findings"]
    spoken = [(str(name), str(kind)) for finding in found for name, kind in finding["tensors"]]
    rest = sorted((tensor for tensor in run.tensors if tensor.kind in _KINDS), key=lambda t: _KINDS.index(t.kind))
    return list(dict.fromkeys([*spoken, *((tensor.name, tensor.kind) for tensor in rest)]))
