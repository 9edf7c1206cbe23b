"""The state of an optimizer, on another device than the parameters that it belongs to."""

from __future__ import annotations

import torch

from backsight.diagnosis.errors.devices import placed
from backsight.diagnosis.errors.devices.owners import moves, owner_of, spelled
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, listed, shown
from backsight.source import Place
from backsight.source.body import callee, calls_in, functions, statements
from backsight.story.failure import Failure
from backsight.story.files import user_files
from backsight.story.memory import is_tensor
from backsight.tracing.steps import parameters


def of_state(failure: Failure) -> Finding | None:
    """Explain a step of an optimizer whose state is not where its parameters are; None for any other failure."""
    held = (each.variables.get("self") for each in reversed(failure.levels))
    optimizer = next((each for each in held if isinstance(each, torch.optim.Optimizer)), None)
    state = vars(optimizer).get("state") if optimizer is not None else None
    if optimizer is None or not isinstance(state, dict):
        return None
    for parameter in parameters(optimizer):
        kept = dict.get(state, parameter)
        entries = list(kept.items()) if isinstance(kept, dict) else []
        away = [(name, each) for name, each in entries if is_tensor(each) and each.dim()]  # a step count may stay there
        away = [(name, each) for name, each in away if placed.device_of(each) != placed.device_of(parameter)]
        if away:
            return _told(failure, optimizer, parameter, away)
    return None


def _told(
    failure: Failure, optimizer: torch.optim.Optimizer, parameter: torch.Tensor, away: list[tuple[str, torch.Tensor]]
) -> Finding:
    name = names_of(failure, [optimizer])[0] or "the optimizer"
    owner = owner_of(failure, parameter)
    model = owner.name if owner else "model"
    there, here = placed.device_of(away[0][1]), placed.device_of(parameter)
    loads, moved = _loads(failure), [place for place, _ in moves(failure, owner.module if owner else None)]
    pairs = [(load, move) for load in loads for move in moved if load.file == move.file and load.line < move.line]
    load, move = min(pairs, key=lambda pair: pair[1].line - pair[0].line, default=(None, None))
    load = load or (loads[-1] if len(loads) == 1 else None)
    lines = [shown(load, f"loads the state to where the parameters are then: {there}.", "read")] if load else []
    lines += [shown(move, "moves the parameters, and not the state of the optimizer.", "read")] if move else []
    device = spelled(failure, here)
    which = listed([each for each, _ in away], 3)
    return explanation(
        f"The state of {name} ({which}) is on {there}, but the parameters of {model} are on {here}.",
        (*lines, *failing(failure, "needs both on one device.")),
        f"Move the model first, then create the optimizer and load its state: {model}.to({device}) before "
        f"{name}.load_state_dict(...), which puts the state where the parameters are.",
        source=str(load) if load else failure.source,
        exact=load is not None and move is not None,
    )


def _loads(failure: Failure) -> list[Place]:
    """The statements that load the state of what is called as an optimizer is: not the model's."""
    found = []
    for file in user_files(failure):
        for body in functions(file):
            for statement in statements(body.node):
                for call in calls_in(statement):
                    receiver, method = callee(call)
                    text = body.text(receiver).lower() if receiver is not None else ""
                    if method == "load_state_dict" and text.rpartition(".")[2].startswith("opt"):
                        found.append(body.place(statement))
    return found
