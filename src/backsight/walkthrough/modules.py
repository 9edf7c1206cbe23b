"""A walk by modules: what came to each, what it passed on, what its parameters received."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from backsight.walkthrough.step import Step

MOST = 40
"""Rows of a summary: modules are named as deep as this many rows allow."""


@dataclass(frozen=True)
class Row:
    """One module of a walk.

    `norm_in` is the norm of the gradients of its results, `norm_out` that of the gradients that it passed on to other
    modules, and `norm_leaves` that of what its operations gave to leaves. `ratio` is `norm_out / norm_in`: a model
    whose rows are all above one explodes, below one vanishes.
    """

    module: str
    steps: int
    norm_in: float
    norm_out: float
    norm_leaves: float
    finite: bool

    @property
    def ratio(self) -> float:
        """How much larger the gradient leaves than it came; nan where nothing came or nothing left."""
        return self.norm_out / self.norm_in if self.norm_in and self.norm_out else float("nan")


@dataclass
class _Sums:
    """Squares of norms, while steps are gone through."""

    steps: int = 0
    came: float = 0.0
    passed: float = 0.0
    leaves: float = 0.0
    finite: bool = True
    inner: set[int] = field(default_factory=set)


def by_module(steps: Sequence[Step]) -> tuple[Row, ...]:
    """Return the modules of `steps` in the order in which the gradient came to them."""
    module = _cut(steps)
    at = {step.node.index: module[step.number] for step in steps}
    from_within: set[tuple[int, int]] = set()
    for step in steps:
        from_within |= {
            (e.node.index, e.output) for e in step.node.inputs if e and at.get(e.node.index) == at[step.node.index]
        }
    sums: dict[str, _Sums] = {}
    for step in steps:
        if step.node.leaf is None:
            _add(sums.setdefault(at[step.node.index], _Sums()), step, at, from_within)
    return tuple(Row(name, s.steps, s.came**0.5, s.passed**0.5, s.leaves**0.5, s.finite) for name, s in sums.items())


def _add(sums: _Sums, step: Step, at: dict[int, str], from_within: set[tuple[int, int]]) -> None:
    sums.steps += 1
    sums.finite &= step.finite
    for output, g in enumerate(step.grad_in):
        if g is not None and (step.node.index, output) not in from_within:
            sums.came += g.norm**2
    for edge, g in zip(step.node.inputs, step.grad_out, strict=True):
        if edge is None or g is None:
            continue
        if edge.node.leaf is not None:
            sums.leaves += g.norm**2
        elif at.get(edge.node.index) != at[step.node.index]:
            sums.passed += g.norm**2


def _cut(steps: Sequence[Step]) -> dict[int, str]:
    """Return the module of each step, named as deep as MOST rows allow."""
    paths = {step.number: step.node.module or "" for step in steps if step.node.leaf is None}
    deepest = max((path.count(".") + 1 for path in paths.values() if path), default=1)
    for depth in range(deepest, 0, -1):
        cut = {number: ".".join(path.split(".")[:depth]) for number, path in paths.items()}
        if depth == 1 or len(set(cut.values())) <= MOST:
            break
    return {**dict.fromkeys((step.number for step in steps), ""), **cut}
