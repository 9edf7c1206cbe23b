"""What stands above and below the table of a step: the run in a line, problems in words, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from backsight.runs import NonFinite, Run, Scalar, loss_names
from backsight.tables.board import HEADINGS, STYLE
from backsight.tables.listing import listed
from backsight.tables.problems import KINDS, Problem
from backsight.tables.step import RMS, Row, Step
from backsight.tables.text import command, line, moment, number, steps_of
from backsight.tables.tree import Module
from backsight.text import counted, printable, size

if TYPE_CHECKING:
    from backsight.text.rich import Text

MOST = 6
"""Tensors that are named for one problem."""

LOSSES = 4
"""Losses that have a line each."""

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def heading(run: Run, step: Step) -> Iterator[Text]:
    """Yield what run and step this is."""
    from backsight.text.rich import Text

    about = listed(run)
    ranks = "" if about.world == 1 else f", {about.ranks} of {about.world} ranks"
    steps = steps_of(run.training_steps, step.newest if step.last_trained else None)
    facts = f"{steps}, {counted(about.tensors, 'tensor')}{ranks}, {size(about.bytes)}"
    damage = "" if about.damage == "none" else f", {about.damage} damaged"
    yield Text.assemble(
        (printable(str(run.path)), "bold"), (f"  started {moment(run.created)}, {about.state}, {facts}{damage}", "dim")
    )
    later = "" if step.number == step.newest else f" of {step.newest:,}"
    if step.last_trained:
        later = f", the last of the training; step {step.newest:,} is an evaluation after it"
    marks = sorted((mark for mark in run.marks if mark.step == step.number), key=lambda mark: -mark.rank)
    tags = {name: value for mark in marks for name, value in mark.tags.items()}  # of several ranks the lowest holds
    losses = _losses(run)
    said = {name for name, loss in losses.items() if loss.steps[-1] == step.number}  # whose line says this value
    told = "".join(f", {printable(name)} {_tag(value)}" for name, value in tags.items() if name not in said)
    yield Text.assemble((f"step {step.number:,}", "bold"), f"{later}{told}")
    yield from (line(_course(name, loss)) for name, loss in losses.items())
    if about.state != "recording" and (ended := _ended(run.last_steps)):
        yield Text(ended, "yellow")


def _losses(run: Run) -> dict[str, Scalar]:
    """Return the losses that have a line: those that were finite at some step."""
    found = run.scalars()
    return {name: found[name] for name in loss_names(run, found)[:LOSSES] if np.isfinite(found[name].values).any()}


def _course(name: str, loss: Scalar) -> str:
    """Return how a loss went: its first, last and lowest value."""
    steps, values = loss.steps.tolist(), loss.values
    lowest = int(np.argmin(np.where(np.isfinite(values), values, np.inf)))
    ends = f"{_value(values[0])} at step {steps[0]:,}, {_value(values[-1])} at step {steps[-1]:,}"
    return f"{printable(name)}: {ends}, lowest {number(values[lowest])} at step {steps[lowest]:,}"


def _value(value: float) -> str:
    return "nan" if np.isnan(value) else number(value)


def below(run: Run, step: Step, typed: str, modules: Sequence[Module]) -> Iterator[Text]:
    """Yield the problems, what the signs of the table mean, what it does not show, and what to do next.

    modules: those in the table.
    """
    from backsight.text.rich import Text

    wrong = [row for row in step.rows if row.problems]
    first = run.first_nonfinite()
    if first is not None:
        yield Text.assemble(("not finite first: ", "bold red"), _first(first))
    yield from _problems(wrong)
    yield Text(_legend(step), "dim")
    if calls := sorted({row.calls for module in modules if module.alike == 1 for row in module.rows} - {1}):
        yield Text(_called(calls), "dim")
    if step.hidden:
        yield Text(_hidden(step), "dim")
    what, typed_next = _next(step, typed, first, wrong, folds=any(module.alike > 1 for module in modules))
    yield Text.assemble(("next: ", "bold green"), f"{what}:")
    yield command(typed_next)


def _problems(wrong: list[Row]) -> Iterator[Text]:
    """Yield each problem once, with the tensors that have it; the gravest first, and of those the earliest."""
    from backsight.text.rich import Text

    by_text: dict[Problem, list[str]] = {}
    for row in wrong:
        of = "" if row.kind in ("output", "weight") else f" ({row.kind.replace('_', ' ')})"
        for problem in row.problems:
            by_text.setdefault(problem, []).append(f"{printable(row.tensor)}{of}")
    for problem in sorted(by_text, key=lambda each: (KINDS.index(each.kind), len(each.text), each.text)):
        names = by_text[problem]
        more = f" and {len(names) - MOST:,} more" if len(names) > MOST else ""
        yield Text.assemble((problem.text, STYLE[problem.kind]), f": {', '.join(names[:MOST])}{more}")


def _first(first: NonFinite) -> str:
    held = [f"{count:,} {name}" for count, name in ((first.nans, "NaN"), (first.infs, "infinite")) if count]
    call = f", call {first.call}" if first.call else ""
    return (
        f"{first.kind.replace('_', ' ')} {printable(first.tensor)} at step {first.step:,}{call}: {' and '.join(held)}"
    )


def _legend(step: Step) -> str:
    if len(step.window) == 1:
        return "lines: there is only one step so far"
    what = "root mean square" if step.line == RMS else HEADINGS.get(step.line, step.line)
    return f"lines: {what} over the last {len(step.window)} recorded steps, each scaled from its own min to max"


def _hidden(step: Step) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in step.hidden.items())
    return f"not shown: {kinds} (--kind KIND shows them)"


def _ended(last: dict[int, int | None]) -> str | None:
    """Say which rank ended first, if they ended at different steps, as where one of them was killed."""
    steps = {rank: -1 if step is None else step for rank, step in last.items()}
    first, furthest = min(steps, key=lambda rank: steps[rank]), max(steps, key=lambda rank: steps[rank])
    if steps[first] == steps[furthest]:
        return None
    ended = f"ended at step {steps[first]:,}" if steps[first] >= 0 else "recorded no step"
    return f"ranks are at different steps: rank {first} {ended}, rank {furthest} at step {steps[furthest]:,}"


def _called(calls: list[int]) -> str:
    """Return what `×3` in a table means."""
    if len(calls) > 1:
        return (
            f"{', '.join(f'×{count}' for count in calls)}: called that many times in the step; the last call is shown"
        )
    (count,) = calls
    often = "twice" if count == 2 else f"{_WORDS[count] if count < len(_WORDS) else f'{count:,}'} times"
    return f"×{count}: called {often} in the step; the last call is shown"


def _next(step: Step, typed: str, first: NonFinite | None, wrong: list[Row], folds: bool) -> tuple[str, str]:
    """Return what is worth a look, and the command that shows it."""
    show = f"backsight runs show {typed}"
    if first is not None and first.step != step.number:
        return "the step where it started", f"{show} --step {first.step} --kind input,output,weight,grad"
    if first is not None:
        return "what went into it", f"{show} --step {step.number} --kind input,weight,state"
    audit = f"backsight runs audit {typed}"
    if wrong:
        return "what it means and how to fix it", audit
    return (
        ("the modules that are alike", f"{show} --all")
        if folds
        else (("find problems that the table does not show"), audit)
    )


def _tag(value: object) -> str:
    return number(value) if isinstance(value, float) else printable(str(value))
