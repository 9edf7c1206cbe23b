"""A lazy module's parameters are asked for what they have only after its first forward."""

from __future__ import annotations

import ast

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, anew, remedy
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.wording import a_kind, shown
from backsight.source.body import callee, dotted, expressions
from backsight.source.edits import OR
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level
from backsight.story.files import calls_in_files


@remedy(r"Attempted to use an uninitialized parameter|trying to use .*Uninitialized")
def _without_shape(found: Refusal, match: Match) -> Remedy | None:
    """A count, an initialization or a copy runs before the first forward has given the parameters their shapes."""
    level = found.level
    every = [(body.place(each), callee(call)[1]) for body, each, call in calls_in_files(found.failure)]
    made = {place: kind for place, kind in every if kind.startswith("Lazy") and hasattr(torch.nn, kind)}
    held = next((each for each in level.variables.values() if _is_lazy(each)), None)
    name = names_of(found.failure, [held])[0] if held is not None else ""
    named = f"{name} has" if name else "A lazy module's parameters have"
    lines = [
        shown(place, f"creates {a_kind(kind)}: its first forward gives it shapes.") for place, kind in made.items()
    ]
    outer = next((each for each in found.failure.users if not each.function.endswith(("expr>", "comp>"))), level)
    first = (
        f"{named} no shape yet: before line {outer.line}, call the forward once on a batch like those of the training, "
        "inside `with torch.no_grad():`"
    )
    skipped = _skipping(outer)
    return Remedy(f"{first}{skipped}.", tuple(lines[:3]))


def _is_lazy(value: object) -> bool:
    return isinstance(value, torch.Tensor) and torch.nn.parameter.is_lazy(value)


def _skipping(level: Level) -> str:
    """The statement that counts, without what has no shape yet."""
    body, statement = level.body, level.statement
    for node in expressions(statement) if body is not None and statement is not None else ():
        loop = node.generators[-1] if isinstance(node, ast.GeneratorExp | ast.ListComp) else None
        calls = (each for each in ast.walk(node) if isinstance(each, ast.Call))
        counted = {dotted(callee(each)[0]) for each in calls if callee(each)[1] in ("numel", "nelement")}
        name = dotted(loop.target) if loop is not None else None
        if loop is None or name is None or name not in counted or body is None or statement is None:
            continue
        test = f"not torch.nn.parameter.is_lazy({name})"
        last = loop.ifs[-1] if loop.ifs else loop.iter
        text = body.text(last)
        new = f"{test} and {text}" if loop.ifs else f"{text} if {test}"
        line = rewritten(body, statement, {last: new})
        if line:
            edit = anew(body, statement, line)
            return f". {OR}Or leave them out of the count: on line {level.line}, write `{line}`{edit}"
    return ""
