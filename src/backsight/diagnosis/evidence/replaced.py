"""A model that was replaced by another one after its optimizer was built: the optimizer still holds the old weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Evidence
from backsight.source import Body, Place, statements_of
from backsight.source.bindings import assigned, targets
from backsight.source.body import callee, dotted
from backsight.story.failure import Failure
from backsight.story.files import user_files


def replaced(failure: Failure, model: str, optimizer: str) -> tuple[Place, tuple[Evidence, ...], str] | None:
    """Return the one statement that assigns another model, with evidence and fix; None where none or several do.

    The optimizer is known to hold no parameter of the model as it is now. What is assigned above the optimizer, in the
    same function, is what it was built for.
    """
    built, every = list(_assigned(failure, optimizer)), list(_assigned(failure, model))
    found = [
        given
        for given in every
        if not any(given.body.node is one.body.node and given.statement.lineno < one.statement.lineno for one in built)
    ]
    if len(found) != 1 or len(built) != 1 or len(every) == 1:  # the only one replaces nothing
        return None
    body, statement, target, value = found[0]
    place, building = body.place(statement), built[0].body.place(built[0].statement)
    evidence = (
        shown(building, f"builds {optimizer} for the model that {model} is then."),
        shown(place, f"replaces it by another one, whose parameters {optimizer} does not hold."),
    )
    match value:
        case ast.Call(args=[copied, *_]) as call if callee(call)[1] == "deepcopy":
            loading = f"{target}.load_state_dict({body.text(copied)}.state_dict())"
            alone = len(list(targets(statement))) == 1
            how = f"write `{loading}`" if alone else f"leave {target} out, and write `{loading}` above it"
            fix = f"On line {place.line}, {how}: it changes the values of the weights that {optimizer} holds."
        case _:
            fix = f"Build {optimizer} again below line {place.line}, as line {building.line} does."
    return place, evidence, fix


class _Assigned(NamedTuple):
    body: Body
    statement: ast.stmt
    target: str
    value: ast.expr


def _assigned(failure: Failure, name: str) -> Iterator[_Assigned]:
    """The statements of the program's files that assign an attribute by this name, or a variable."""
    last = name.rpartition(".")[2]
    for body, each in statements_of(*user_files(failure)):
        for goal, value in assigned(each):
            target = dotted(goal)
            if target is not None and ("." in target) == ("." in name) and target.rpartition(".")[2] == last:
                yield _Assigned(body, each, target, value)
