"""An optimizer whose parameters are all frozen, so that no backward gives them gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.scaler_calls import Misused
from backsight.diagnosis.evidence.exchanged import exchanged, told
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.findings.evidence import Certainty, Evidence, Fact
from backsight.naming import search
from backsight.source import Body, Place, statements_of
from backsight.source.bindings import assigned, targets
from backsight.source.body import callee, dotted
from backsight.source.edits import instead, repeat
from backsight.source.freezing import freezing_of, freezings
from backsight.story.failure import Failure
from backsight.story.files import user_files
from backsight.story.memory import is_module
from backsight.tape import parameters_in


def frozen_in_optimizer(misused: Misused, trained: Sequence[str], title: str, asked: Sequence[Fact]) -> Finding:
    """Name what has frozen them, or given them in the place of what is to be trained; `trained` are the modules that
    have gradients."""
    argument = misused.argument
    held = owner_of(misused) or f"all that {argument} holds"
    title = f"{title[:-1]}: {held} is frozen."
    frozen = freezing_of([held], (each for file in user_files(misused.failure) for each in freezings(file)))
    certainty: Certainty | None = None if len(frozen) == 1 else "read"
    lines: list[Fact] = [shown(each, "sets requires_grad to False.", certainty) for each in frozen[:3]]
    lines += [f"{listed(trained, 3)} has gradients, but no optimizer holds its parameters."] if trained else []
    if (swap := exchanged(misused.failure, held)) is not None:
        evidence, fix = told(swap)
        return misused.told(title, swap.place, [*lines, *evidence, *asked], fix)
    fix = f"If {held} should be trained, do not freeze it: call {held}.requires_grad_(True) before the forward pass."
    if trained:
        fix += f" If it should not, {argument} needs the parameters of what should."
    else:
        fix += f" While it is frozen, leave {misused.name}.step({argument}) out."
    return misused.told(title, frozen[0] if len(frozen) == 1 else misused.asked, [*lines, *asked], fix, exact=False)


def owner_of(misused: Misused) -> str:
    """What the program calls the largest module all of whose parameters the optimizer holds; empty if there is none."""
    held = {id(each) for each in misused.parameters}
    found = search((), frames=misused.failure.frames, collect=(torch.nn.Module,)).found
    every = [(list(parameters_in(module)), name.path) for module, name in found if is_module(module)]
    owned = [(len(ps), path) for ps, path in every if ps and all(id(p) in held for p in ps)]
    return max(owned, key=lambda each: each[0], default=(0, ""))[1]


# A model that was replaced by another one after its optimizer was built: the optimizer still holds the old weights.


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
            how = f"write `{loading}`{instead(body, statement, loading)}"
            if len(list(targets(statement))) > 1:
                left = _without(body, statement, target)
                both = instead(body, statement, f"{loading}; {left}") if left else ""
                how = f"leave {target} out, and write `{loading}` above it{both}"
            fix = f"On line {place.line}, {how}: it changes the values of the weights that {optimizer} holds."
        case _:
            again = repeat(building, "below", place) if built[0].body.node is body.node else ""
            fix = f"Build {optimizer} again below line {place.line}, as line {building.line} does{again}."
    return place, evidence, fix


def _without(body: Body, statement: ast.stmt, target: str) -> str:
    """`self.a, self.b = x, y` without one of its targets; empty for another form."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=goals)], value=ast.Tuple(elts=values)) if len(goals) == len(values):
            left = [(body.text(a), body.text(b)) for a, b in zip(goals, values, strict=True) if dotted(a) != target]
            return f"{', '.join(a for a, _ in left)} = {', '.join(b for _, b in left)}"
    return ""


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
