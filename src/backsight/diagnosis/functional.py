"""BS138: a model is evaluated that never changes, while a dict of its weights is trained."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import FrameType

import torch

from backsight.diagnosis.amending import added
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import named, program_frames, statements_around
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.naming import search
from backsight.source import Place, function_at, only, statement_at
from backsight.source.body import callee, calls_in, dotted
from backsight.source.edits import OR
from backsight.tape import modules_in, registered
from backsight.tape.saved import is_readable

CODES = ("BS138",)

_FEW = 4


@dataclass(frozen=True)
class Held:
    """The variable that holds a dict of a model's weights, other than its own, and some of the values."""

    name: str
    values: tuple[float, ...]


def held(module: torch.nn.Module) -> Held | None:
    """Return the one dict that has an entry for each parameter of a module, of the same shape, and other values."""
    own = {
        f"{path}.{name}" if path else name: each
        for path, inner in modules_in(module)
        for name, each in registered(inner, "_parameters").items()
        if isinstance(each, torch.Tensor)
    }
    found: dict[int, Held] = {}
    for each, name in search((), collect=(dict,), where=lambda each: dict.__len__(each) == len(own)).found:
        if not isinstance(each, dict) or not own or name.path.startswith("self.__") or set(each) != set(own):
            continue
        pairs = [(own[key], value) for key, value in each.items()]
        if not all(type(value) is torch.Tensor and value.shape == p.shape and is_readable(value) for p, value in pairs):
            continue
        if any(value.data_ptr() == p.data_ptr() or not torch.isfinite(value).all() for p, value in pairs):
            continue
        if any(not torch.equal(value.detach(), p.detach()) for p, value in pairs):
            few = tuple(float(value.detach().sum()) for _, value in pairs[:_FEW])
            found[id(each)] = Held(name.path, few)
    # Several are the velocities of a momentum as well: those that are trained go into functional_call, by name.
    return next(iter(found.values())) if len(found) == 1 else _by_name(list(found.values()))


def _by_name(every: list[Held]) -> Held | None:
    return only(each for each in every if "param" in each.name.lower() or "weight" in each.name.lower())


def never_updated(module: torch.nn.Module, weights: Held, frame: FrameType) -> Finding:
    """Return the finding that a model, evaluated by the statement of a frame, is not what is trained."""
    name, around = named(module, type(module).__name__), next(program_frames(frame), None)
    body = function_at(around.f_code) if around is not None else None
    statement = statement_at(body, around.f_lineno) if body is not None and around is not None else None
    place = body.place(statement) if body is not None and statement is not None else None
    trained, copied = _calls(frame), _copied(frame, weights.name)
    call = f"{name}.load_state_dict({weights.name})"
    return warning(
        "BS138",
        f"{name} never changes: what is trained is {weights.name}, a dict of other weights.",
        (
            if_known(copied, f"copies the parameters of {name} into {weights.name}."),
            shown(trained, f"computes with weights that are handed in, not with those of {name}.") if trained else None,
            if_known(place, f"evaluates {name}, whose parameters are bit-identical to those of the start."),
        ),
        f"Copy them back before you evaluate, and after the training: {call}{added(call, 'above', place)}. "
        f"{OR}Or evaluate with functional_call("
        f"{name}, {weights.name}, (x,)).",
        place,
    )


def _calls(frame: FrameType) -> Place | None:
    return only(
        body.place(statement)
        for body, statement in statements_around(frame)
        if any(callee(call)[1] == "functional_call" for call in calls_in(statement))
    )


def _copied(frame: FrameType, name: str) -> Place | None:
    """Return the one statement that fills the dict with what a module has for parameters."""
    return only(
        body.place(statement)
        for body, statement in statements_around(frame)
        if isinstance(statement, ast.Assign) and any(dotted(goal) == name for goal in statement.targets)
        if any(callee(call)[1] in ("named_parameters", "state_dict") for call in calls_in(statement))
    )
