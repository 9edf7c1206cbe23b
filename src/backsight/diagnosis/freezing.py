"""BS101, BS126, BS129: what the program freezes and unfreezes, and whether that does what it is meant to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import FrameType

import torch
from torch import nn

from backsight.diagnosis.amending import written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import (
    bodies,
    conditions_around,
    constructions,
    ending,
    few_of,
    looped,
    named,
    names_of,
    statements_around,
)
from backsight.diagnosis.wording import counted, if_known, shown, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Body, Place, only
from backsight.source.body import callee, calls_in, dotted, is_constant, statements
from backsight.tape import modules_in, parameters_in


def attribute_alone(model: nn.Module, since: int, frame: FrameType) -> Finding | None:
    """Return the finding that `module.requires_grad = ...` was set, which tells the module's parameters nothing."""
    for path, module in modules_in(model):
        wanted = (namespace(module) or {}).get("requires_grad")
        held = list(parameters_in(module))
        against = [p for p in held if p.requires_grad is not wanted] if isinstance(wanted, bool) else []
        if not against:
            continue
        name = ".".join(part for part in (named(model), path) if part)
        last = ending(name)
        found = setting(frame, "requires_grad", wanted, last)
        place, called = found or (None, name)
        name = called  # several models may hold it
        edit = written(place, f"{called}.requires_grad_({wanted})")
        state = "frozen" if wanted else "trained"
        told = "A module does not pass requires_grad on to its parameters."
        return warning(
            "BS126",
            f"requires_grad = {wanted} only sets an attribute of {name}: "
            f"{len(against)} of its {counted(len(held), 'parameter')} {'is' if len(against) == 1 else 'are'} {state}.",
            (told,) if place is None else (shown(place, "sets it; a module does not pass it on to its parameters."),),
            f"Call {called}.requires_grad_({wanted}){edit}, which sets it for each of them.",
            place,
            since=since,
        )
    return None


def left_frozen(
    optimizer: torch.optim.Optimizer, frozen: Sequence[torch.Tensor], since: int, frame: FrameType
) -> Finding | None:
    """Return the finding that what an optimizer has trained is frozen for another step, and stays so.

    Who freezes layers for good does so once, before a phase or on a condition. So it has to be done without one, in a
    function that makes a step itself, and nothing in the program's files may enable the gradients again.
    """
    found = [(body, s, on) for body, s, on in freezing(frame)]
    if any(on for _, _, on in found):
        return None
    for body, statement, _ in found:
        steps = any(callee(call)[1] == "step" for s in statements(body.node) for call in calls_in(s))
        if conditions_around(body, statement.lineno) or not steps:
            continue
        name, place = named(optimizer, "the optimizer"), body.place(statement)
        never = "it is never unfrozen" if len(frozen) == 1 else "they are never unfrozen"
        return warning(
            "BS129",
            f"{name} no longer trains {names_of(frozen)}: {never}.",
            (shown(place, "sets requires_grad to False; nothing sets it back to True."),),
            "Call requires_grad_(True) again after the backward that needed them frozen.",
            place,
            since=since,
        )
    return None


def freezing(frame: FrameType | None) -> Iterator[tuple[Body, ast.stmt, bool]]:
    """Yield the statements that set requires_grad, each with whether it may be turned on."""
    for body, statement in statements_around(frame):
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        value: ast.expr | None = getattr(statement, "value", None)
        if any(isinstance(target, ast.Attribute) and target.attr == "requires_grad" for target in targets):
            yield body, statement, not is_constant(value, False)
        for call in calls_in(statement):
            if callee(call)[1] == "requires_grad_":
                yield body, statement, not (call.args and is_constant(call.args[0], False))


def setting(frame: FrameType, attribute: str, value: object, last: str) -> tuple[Place, str] | None:
    """Return the statement that sets an attribute of a module to a value, and what it calls the module.

    last: what the module is called last, `encoder`. A helper may call it otherwise: then it is the only statement that
    sets this value, of what is no variable of a loop, as parameters are.
    """
    every: list[tuple[Place, str]] = []
    for body in bodies(frame):
        variables = looped(body)
        for statement in statements(body.node):
            for target in statement.targets if isinstance(statement, ast.Assign) else ():
                receiver = dotted(target.value) if isinstance(target, ast.Attribute) else None
                if receiver is None or target.attr != attribute:  # type: ignore[attr-defined]  # an attribute
                    continue
                if receiver not in variables and not is_constant(statement.value, not value):  # type: ignore[attr-defined]
                    every.append((body.place(statement), receiver))
    of_name = [each for each in every if ending(each[1]) == last]
    return next(iter(of_name), None) or only(every)


def thawed(
    tensors: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer, since: int, frame: FrameType | None
) -> Finding | None:
    """Return the finding that unfrozen parameters have gradients and do not move; None where those are read."""
    every = (node for body in bodies(frame) for node in ast.walk(body.node))
    if any(isinstance(node, ast.Attribute) and node.attr == "grad" for node in every):
        return None
    one, name, made = len(tensors) == 1, *_made(optimizer, frame)
    on = [body.place(statement) for body, statement, on in freezing(frame) if on]
    last = made[-1] if made else None
    return warning(
        "BS101",
        f"{few_of(tensors)} {'was' if one else 'were'} unfrozen, but no optimizer updates {'it' if one else 'them'}.",
        (
            "Frozen at first, they have gradients now, and their values do not change.",
            if_known(only(on), "sets requires_grad, but adds nothing to an optimizer."),
            if_known(last, f"creates {name}, which does not hold {'it' if one else 'them'}."),
        ),
        f"Add them when you unfreeze them, with {name}.add_param_group, or create {name} with all parameters: it skips "
        "those that have no gradient.",
        last or only(on),
        since=since,
    )


def _made(optimizer: torch.optim.Optimizer, frame: FrameType | None) -> tuple[str, list[Place]]:
    """Return the name under which an optimizer is created, and where; a function may call it otherwise."""
    names = [each.path for each in search([optimizer]).names[0]]
    for name in names:
        if made := constructions(frame, optimizer, name):
            return next((each for each in names if made[-1].text.startswith(f"{each} =")), name), made
    return named(optimizer, "the optimizer"), []
