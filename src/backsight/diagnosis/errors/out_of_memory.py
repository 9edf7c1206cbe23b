"""BS232: the memory of a device is used up: which variables keep graphs of earlier steps, and the largest tensors."""

from __future__ import annotations

import re
from collections import Counter

import torch

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.live.census import with_history
from backsight.diagnosis.wording import described, failing, shown
from backsight.findings.evidence import Fact
from backsight.source import Place, only
from backsight.source.body import callee, dotted
from backsight.story.failure import Failure
from backsight.story.files import calls_in_files
from backsight.story.memory import is_tensor
from backsight.tape import alive
from backsight.text import size as size_of

_KEPT = 3
"""Tensors with a graph that one list keeps, at least."""


_ASKED = 1000
"""Tensors whose names are looked for."""


@explains("BS232", r"out of memory\. Tried to allocate (?P<size>[\d.]+ ?\w+)")
def out_of_memory(failure: Failure, match: re.Match[str]) -> Finding:
    """Say who keeps graphs of earlier steps, or else which tensors are the largest; no more is known to Python."""
    failed = failing(failure, f"asked for {match['size']} more.")
    path, number = _keeps(failure)
    if number < _KEPT:
        return explanation(
            "The device is out of memory, and no variable keeps graphs of earlier steps.",
            (*failed, *_largest(failure)),
            "Use a smaller batch, or checkpoint the largest blocks (torch.utils.checkpoint). Run evaluation under "
            "torch.no_grad().",
            source=failure.source,
            exact=False,
        )
    kept = _keeping(failure, path)
    lines = [shown(kept, "keeps a tensor with its graph in each step.", "read")] if kept else []
    return explanation(
        f"{path} keeps {number} tensors with their graphs alive: the device is out of memory.",
        (*lines, *failed),
        "Keep a number, .item(), or the values without the graph, .detach(). Where no backward follows, compute them "
        "under torch.no_grad().",
        source=kept or failure.source,
        exact=kept is not None,
    )


def _keeps(failure: Failure) -> tuple[str, int]:
    """The list that keeps most of the tensors with a graph, as the failing functions reach it, and how many."""
    tensors = with_history()[:_ASKED]
    paths = (name for name in names_of(failure, tensors) if name.endswith("]"))
    found = Counter(path.rpartition("[")[0] for path in paths).most_common(1)
    return found[0] if found else ("", 0)


def _keeping(failure: Failure, path: str) -> Place | None:
    """The statement that appends to a list of this name; None where there are several."""
    last = path.rpartition(".")[2]
    found = []
    for body, statement, call in calls_in_files(failure):
        receiver, method = callee(call)
        if method in ("append", "appendleft") and (dotted(receiver) or "").split(".")[-1] == last:
            found.append(body.place(statement))
    return only(found)


def _largest(failure: Failure) -> list[Fact]:
    """The largest tensors that Python holds and that have a name."""
    few = sorted(filter(is_tensor, alive(torch.Tensor)), key=_size, reverse=True)[:3]
    names = names_of(failure, few)
    return [
        f"{name}: {described(each)}, {size_of(_size(each))}." for name, each in zip(names, few, strict=True) if name
    ]


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
