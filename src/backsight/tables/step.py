"""One step of a run as data: a row for each tensor, with its last steps."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backsight.runs import NotInRun, Run
from backsight.tables.problems import Moment, Problem, problems

WINDOW = 64
"""How many recorded steps a row shows."""

STATS = ("mean", "std", "norm", "min", "max", "zero_fraction")
"""What is shown unless other statistics are asked for, the most wanted first: a narrow table has fewer."""

SELDOM = ("input", "eval_input", "eval_output", "buffer", "state")
"""Kinds that are shown only if they are asked for, or if there is nothing else."""

RMS = "rms"

_ALWAYS = ("mean", "min", "max", "m2", "count", "zeros", "nans", "infs")


@dataclass(frozen=True)
class Row:
    """A tensor at this step; of several calls the last one.

    history: one number for each step of the window; NaN where the tensor was not there, or not finite.
    """

    tensor: str
    kind: str
    module: str | None
    shape: tuple[int, ...] | None
    calls: int
    values: dict[str, float]
    history: tuple[float, ...]
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Step:
    """A step of a run.

    steps, newest: how many steps the run has, and its newest.
    window: the recorded steps up to this one, as many as a row shows.
    line: the statistic that `Row.history` is of: the first that was asked for, else the root mean square, which batches
        of different sizes do not change.
    hidden: how many tensors of each kind are not shown.
    last_trained: whether this was chosen as the last step with gradients, and others follow.
    """

    number: int
    steps: int
    newest: int
    window: tuple[int, ...]
    rows: tuple[Row, ...]
    stats: tuple[str, ...]
    line: str
    hidden: dict[str, int]
    last_trained: bool = False


def read_step(
    run: Run, step: int | None = None, kinds: Sequence[str] | None = None, stats: Sequence[str] | None = None
) -> Step:
    """Read a step; if none is given the latest that was trained, as what comes after it is only evaluation.

    If that one has nothing of the kinds, it is the newest that has.

    Raises:
        NotInRun: if there is no such step, kind or statistic, nothing of the kinds in the step, or no step at all.
    """
    steps = run.steps.tolist()
    if not steps:
        raise NotInRun(f"{run.path} holds no step yet.")
    shown = list(kinds) if kinds else _usual(run)
    latest = _latest(run, steps) if step is None else _checked(step, steps)
    number = _holding(run, latest, shown, chosen=step is not None)
    window = tuple(each for each in steps if each <= number)[-WINDOW:]
    wanted = tuple(stats or STATS)
    held = run.frame(
        kind=shown, stat=list(dict.fromkeys([*_ALWAYS, *wanted])), steps=slice(window[0], number + 1), as_="numpy"
    )
    # The first recorded weights, to see which have never moved.
    first = run.frame(kind="weight", stat=list(_ALWAYS), steps=steps[0], as_="numpy") if "weight" in shown else {}
    trained = {tensor.name for tensor in run.tensors if tensor.kind == "grad"}
    mobile = {
        key: moment for key, moment in _moments(first).items() if trained and key[0] not in _frozen(run) - trained
    }
    began = steps.index(number)
    columns = [column for stat in wanted for column in _columns(stat, held)]
    line = columns[0] if stats and columns else RMS
    rows = _rows(held, window, columns, line, mobile, began)
    counts = Counter(tensor.kind for tensor in run.tensors if tensor.kind not in shown)
    hidden = {kind: counts[kind] for kind in (*SELDOM, *counts) if kind in counts}
    last_trained = step is None and number == latest < steps[-1]
    return Step(number, len(steps), steps[-1], window, rows, tuple(columns), line, hidden, last_trained)


def _latest(run: Run, steps: list[int]) -> int:
    if not any(tensor.kind == "grad" for tensor in run.tensors):
        return steps[-1]
    start = steps[-WINDOW:][0]
    trained = run.frame(kind="grad", stat="count", steps=slice(start, steps[-1] + 1), as_="numpy")["step"]
    return int(trained[-1]) if len(trained) else steps[-1]


def _holding(run: Run, step: int, kinds: list[str], chosen: bool) -> int:
    """Return the step if it has rows of one of the kinds, else the newest that has, unless the step was chosen."""
    if len(run.frame(kind=kinds, stat="count", steps=step, as_="numpy")["step"]):
        return step
    held = run.frame(kind=kinds, stat="count", as_="numpy")["step"]
    what = " or ".join(kinds) or "tensors"
    if not len(held):
        raise NotInRun(f"{run.path} holds no {what} in any step yet.")
    if chosen:
        raise NotInRun(f"step {step} holds no {what}; the newest step that does is {held.max()}.")
    return int(held.max())


def _frozen(run: Run) -> set[str]:
    """Return the names of the parameters that need no gradient, as the tree has them."""
    frozen, stack = set(), list(run.tree or [])
    while stack:
        node = stack.pop()
        stack += node.get("children", [])
        for parameter in node.get("parameters", []):
            if not parameter["requires_grad"]:
                frozen.add(f"{node['name']}.{parameter['name']}" if node["name"] else parameter["name"])
    return frozen


def _checked(step: int, steps: list[int]) -> int:
    if step in steps:
        return step
    nearest = min(steps, key=lambda each: abs(each - step))
    around = f"it has {len(steps):,}, from {steps[0]} to {steps[-1]}, and {nearest} is the nearest"
    raise NotInRun(f"the run has no step {step}: {around}.")


def _usual(run: Run) -> list[str]:
    kinds = list(dict.fromkeys(tensor.kind for tensor in run.tensors))
    return [kind for kind in kinds if kind not in SELDOM] or kinds


def _columns(stat: str, held: dict[str, Any]) -> list[str]:
    """Return the columns of a statistic: its own, or one for each number in a list."""
    if stat in held:
        return [stat]
    return [column for column in held if column.startswith(f"{stat}[")]


def _rows(
    held: dict[str, Any],
    window: tuple[int, ...],
    stats: list[str],
    line: str,
    first: dict[tuple[str, str], Moment],
    began: int,
) -> tuple[Row, ...]:
    """Return the rows of the last step of the window, in the order in which they came about."""
    at = {step: k for k, step in enumerate(window)}
    moments: dict[tuple[str, str], list[Moment | None]] = {}
    last: dict[tuple[str, str], int] = {}
    calls: dict[tuple[str, str], int] = {}
    history: dict[tuple[str, str], list[float]] = {}
    numbers = None if line == RMS else held[line].tolist()
    for k, (step, key, moment) in enumerate(zip(held["step"].tolist(), _keys(held), _each(held), strict=True)):
        if (place := at.get(step)) is None:  # which steps there are is damaged
            continue
        if key not in moments:
            moments[key], history[key] = [None] * len(window), [math.nan] * len(window)
        before = moments[key][place]
        moments[key][place] = moment if before is None else before.then(moment)
        history[key][place] = math.nan if not moment.finite else moment.rms if numbers is None else numbers[k]
        if step == window[-1]:
            last[key], calls[key] = k, calls.get(key, 0) + 1
    return tuple(
        Row(
            *key,
            held["module"][k],
            held["shape"][k],
            calls[key],
            {stat: float(held[stat][k]) for stat in stats},
            tuple(history[key]),
            problems(key[1], held["dtype"][k], window, moments[key], first.get(key), began),
        )
        for key, k in last.items()
    )


def _keys(held: dict[str, Any]) -> list[tuple[str, str]]:
    return list(zip(held["tensor"].tolist(), held["kind"].tolist(), strict=True))


def _each(held: dict[str, Any]) -> list[Moment]:
    return [Moment(*values) for values in zip(*(held[name].tolist() for name in _ALWAYS), strict=True)]


def _moments(held: dict[str, Any]) -> dict[tuple[str, str], Moment]:
    return dict(zip(_keys(held), _each(held), strict=True)) if held and len(np.atleast_1d(held["step"])) else {}
