"""What stands above and below the table of a step: the run in a line, problems in words, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from backsight.runs import NonFinite, Run
from backsight.tables.board import HEADINGS, STYLE
from backsight.tables.listing import listed
from backsight.tables.problems import KINDS, Problem
from backsight.tables.step import RMS, Row, Step
from backsight.tables.text import counted, moment, number, printable, size

if TYPE_CHECKING:
    from rich.text import Text

MOST = 6
"""Tensors that are named for one problem."""


def heading(run: Run, step: Step) -> Iterator[Text]:
    """Yield what run and step this is."""
    from rich.text import Text

    about = listed(run)
    ranks = "" if about.world == 1 else f", {about.ranks} of {about.world} ranks"
    facts = f"{counted(about.steps, 'step')}, {counted(about.tensors, 'tensor')}{ranks}, {size(about.bytes)}"
    damage = "" if about.damage == "none" else f", {about.damage} damaged"
    yield Text.assemble(
        (printable(str(run.path)), "bold"), (f"  started {moment(run.created)}, {about.state}, {facts}{damage}", "dim")
    )
    later = "" if step.number == step.newest else f" of {step.newest:,}"
    if step.last_trained:
        later = f", the last with gradients; the newest is step {step.newest:,}"
    tags = {name: value for mark in run.marks if mark.step == step.number for name, value in mark.tags.items()}
    told = "".join(f", {printable(name)} {_tag(value)}" for name, value in tags.items())
    yield Text.assemble((f"step {step.number:,}", "bold"), f"{later}{told}")


def below(run: Run, step: Step, typed: str, folds: bool) -> Iterator[Text]:
    """Yield the problems, what is not shown, and one line of what to do next."""
    from rich.text import Text

    wrong = [row for row in step.rows if row.problems]
    first = run.first_nonfinite()
    if first is not None:
        yield Text.assemble(("not finite first: ", "bold red"), _first(first))
    yield from _problems(wrong)
    yield Text(_legend(step), "dim")
    if step.hidden:
        yield Text(_hidden(step), "dim")
    yield Text.assemble(("next: ", "bold green"), _next(step, typed, first, wrong, folds))


def _problems(wrong: list[Row]) -> Iterator[Text]:
    """Yield each problem once, with the tensors that have it; the gravest first, and of those the earliest."""
    from rich.text import Text

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
    return f"lines: {what} over the last {len(step.window)} recorded steps, each from its own least to its greatest"


def _hidden(step: Step) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in step.hidden.items())
    return f"not shown: {kinds} (--kind {next(iter(step.hidden))} shows those)"


def _next(step: Step, typed: str, first: NonFinite | None, wrong: list[Row], folds: bool) -> str:
    show = f"backsight runs show {typed}"
    if first is not None and first.step != step.number:
        return f"the step where it began: {show} --step {first.step} --kind input,output,weight,grad"
    if first is not None:
        return f"what went into it: {show} --step {step.number} --kind input,weight,state"
    audit = f"backsight runs audit {typed}"
    if wrong:
        return f"what it means, and the cures: {audit}"
    return f"the modules that are alike: {show} --all" if folds else f"look for what a table does not show: {audit}"


def _tag(value: object) -> str:
    return number(value) if isinstance(value, float) else printable(str(value))
