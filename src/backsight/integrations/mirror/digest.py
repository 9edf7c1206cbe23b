"""What of a run is shown elsewhere: a few dozen charts in the order of the model, however large it is.

Each statistic of each tensor of a small GPT-2 would make thousands of charts. Here the norms of gradients and weights
have one chart for the model and one for each of its parts, outputs one for each part, and what is not finite is counted
in one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from backsight.integrations.mirror.sink import Chart
from backsight.runs import BINS, LOWEST_EXPONENT, Run

DENSE = 1024
"""So many of the first recorded steps are all points of a chart; then every second is, from twice as many on every
fourth, and so on. A million steps are 6,097 points, the same ones whenever they are read."""

HISTOGRAMS = 64
"""One in so many points has histograms, too."""

EDGES: NDArray[np.float64] = np.arange(LOWEST_EXPONENT, LOWEST_EXPONENT + BINS + 1, dtype=np.float64)
"""Of histograms: log2 of a magnitude."""

_NORMS = {"grad": "gradient_norm", "weight": "weight_norm"}
_OUTPUT = "output"
_STATS = ("l2", "count", "nonfinite")

Rows = dict[str, NDArray[Any]]


def is_point(position: int) -> bool:
    """Whether the recorded step of this number, from 0, is a point of the charts."""
    return position % _stride(position) == 0


def has_histograms(position: int) -> bool:
    """Whether a step that is a point has histograms."""
    return position % (HISTOGRAMS * _stride(position)) == 0


def _stride(position: int) -> int:
    return max(1, 1 << (position.bit_length() - DENSE.bit_length() + 1)) if position >= DENSE else 1


class Digest:
    """The charts of a run, as far as it has come."""

    def __init__(self, run: Run):
        self.run = run
        self._parts: dict[str, str] = {}

    @property
    def parts(self) -> dict[str, str]:
        """The part of each module, both by name."""
        if not self._parts:
            self._parts = parts_of(self.run.tree or ())
        return self._parts

    def charts(self, steps: NDArray[np.int64], times: NDArray[np.float64]) -> list[Chart]:
        """Return the charts at these steps, which were recorded and ended at these times."""
        kinds = {each.kind for each in self.run.tensors}
        wanted = [kind for kind in (*_NORMS, _OUTPUT) if kind in kinds]
        if not len(steps) or not wanted:
            return []
        window = slice(int(steps[0]), int(steps[-1]) + 1, _distance(steps))
        rows: Rows = self.run.frame(kind=wanted, stat=_STATS, steps=window, as_="numpy")
        at = np.minimum(np.searchsorted(steps, rows["step"]), len(steps) - 1)
        there = steps[at] == rows["step"]
        rows = {name: column[there] for name, column in rows.items()} | {"at": at[there]}
        spoilt = np.bincount(rows["at"], rows["nonfinite"], len(steps)).astype("<f8")
        found = {"nonfinite/all": spoilt}
        for kind in wanted:
            chosen = {name: column[rows["kind"] == kind] for name, column in rows.items()}
            found.update(self._outputs(chosen, len(steps)) if kind == _OUTPUT else self._norms(chosen, len(steps)))
        return [Chart(name, steps.tolist(), times.tolist(), values) for name, values in found.items()]

    def histograms(self, step: int) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yield the counts of the magnitudes of each part's gradients at a step."""
        found: dict[str, NDArray[np.int64]] = {}
        for tensor in self.run.tensors:
            part = self.parts.get(tensor.module or "")
            if tensor.kind == "grad" and part is not None:
                counts = self.run.histograms(tensor.name, kind="grad", steps=step).counts
                if len(counts):
                    found[part] = found.get(part, np.zeros(BINS, "<i8")) + counts.sum(axis=0, dtype="<i8")
        in_order = dict.fromkeys(self.parts.values())
        yield from ((f"gradient_log2/{part}", found[part]) for part in in_order if part in found)

    def _norms(self, rows: Rows, steps: int) -> dict[str, NDArray[np.float64]]:
        """Return the norm of all tensors of one kind together, and of those in each part."""
        rows = _last_calls(rows)
        chart = _NORMS[rows["kind"][0]] if len(rows["kind"]) else ""
        squares = rows["l2"] ** 2
        found = {f"{chart}/all": np.sqrt(_summed(rows["at"], squares, steps))}
        for part, which in self._by_part(rows["module"]).items():
            found[f"{chart}/{part}"] = np.sqrt(_summed(rows["at"][which], squares[which], steps))
        return found if chart else {}

    def _outputs(self, rows: Rows, steps: int) -> dict[str, NDArray[np.float64]]:
        """Return the root of the mean square of what each part returned."""
        found = {}
        for part in dict.fromkeys(self.parts.values()):
            which = rows["module"] == part
            if which.any():
                at, squares = rows["at"][which], rows["l2"][which] ** 2
                mean = _summed(at, squares, steps) / _summed(at, rows["count"][which].astype("<f8"), steps)
                found[f"output_rms/{part}"] = np.sqrt(mean)
        return found

    def _by_part(self, modules: NDArray[Any]) -> dict[str, NDArray[np.bool_]]:
        """Return which rows are of each part, in the order of the model; nothing where one part is all there is."""
        parts = np.array([self.parts.get(module or "", "") for module in modules], dtype=object)
        order = [part for part in dict.fromkeys(self.parts.values()) if (parts == part).any()]
        return {part: parts == part for part in order} if len(order) > 1 else {}


def _last_calls(rows: Rows) -> Rows:
    """Return the last row of each tensor and step: a gradient that is accumulated is a running sum."""
    if not rows["call"].any():
        return rows
    last = {key: k for k, key in enumerate(zip(rows["at"].tolist(), rows["tensor"].tolist(), strict=True))}
    which = np.fromiter(last.values(), "<i8", len(last))
    return {name: column[which] for name, column in rows.items()}


def _summed(at: NDArray[Any], values: NDArray[Any], steps: int) -> NDArray[np.float64]:
    """Return the sums by step, NaN where there is none."""
    seen = np.bincount(at, minlength=steps)
    return np.where(seen > 0, np.bincount(at, values, steps), np.nan)


def _distance(steps: NDArray[np.int64]) -> int | None:
    """Return how far the steps are apart, if that is the same everywhere; else all between them are read."""
    apart = np.unique(np.diff(steps))
    return int(apart[0]) if len(apart) == 1 else None


PARTS = 24
"""The most there are: the blocks of most transformers, and what is around them."""

FEW = 6
"""As long as there are fewer, modules are opened that are more than a list of others."""

_LISTS = frozenset(("ModuleList", "ModuleDict", "Sequential"))

Node = dict[str, Any]


class _Part(NamedTuple):
    """A module with all that is inside, or with the parameters that are right its own."""

    node: Node
    is_whole: bool = True


def parts_of(tree: Sequence[Node]) -> dict[str, str]:
    """Return the part of each module that is in one, both by name, in the order of the model.

    tree: the modules as a run stores them. Lists of modules are opened, others while there are few parts. Of a list
    that is too long some are shown, at even distances. A model without inner modules is a part by its class.
    """
    parts = [_Part(node) for node in tree]
    while True:
        opened = _open_lists(parts)
        if opened == parts and len(parts) < FEW:
            deeper = [inner for part in parts for inner in _inner(part) or [part]]
            opened = deeper if len(deeper) <= PARTS else parts
        if opened == parts:
            break
        parts = opened
    return {
        each["name"]: part.node["name"] or part.node["type"]
        for part in parts
        for each in (_all(part.node) if part.is_whole else [part.node])
    }


def _open_lists(parts: list[_Part]) -> list[_Part]:
    """Return the parts with what is in them in place of lists, as far as there is room."""
    found: list[_Part] = []
    for k, part in enumerate(parts):
        room = PARTS - len(found) - len(parts[k + 1 :])
        inner = _inner(part) if part.node["type"] in _LISTS else []
        found += (inner if len(inner) <= room else _spread(inner, room)) if inner and room > 1 else [part]
    return found


def _inner(part: _Part) -> list[_Part]:
    """Return a part opened: its own parameters, if it has any, and the modules right inside that hold parameters."""
    if not part.is_whole:
        return []
    children = part.node.get("children", ())
    inner = [_Part(child) for child in children if any(each.get("parameters") for each in _all(child))]
    return [part._replace(is_whole=False), *inner] if inner and part.node.get("parameters") else inner


def _all(node: Node) -> Iterator[Node]:
    """Yield a module and all inside of it."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(each.get("children", ()))


def _spread(parts: Sequence[_Part], room: int) -> list[_Part]:
    """Return so many of them at even distances, the first and the last among them."""
    return [parts[round(k * (len(parts) - 1) / (room - 1))] for k in range(room)]
