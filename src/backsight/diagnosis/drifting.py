"""BS139: the running statistics of what is frozen go on changing."""

from __future__ import annotations

from types import FrameType

import torch

from backsight.diagnosis.amending import added
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import calls_around, named
from backsight.diagnosis.wording import counted, numbered, shown
from backsight.source.body import callee, is_constant
from backsight.tape import modules_in, parameters_in

CODES = ("BS139",)


def drifting(
    model: torch.nn.Module, norms: list[torch.nn.Module], since: int, trained: bool, frame: FrameType
) -> Finding:
    """Return the finding that batch normalizations inside of `model` change while all parameters around are frozen.

    trained: whether these were trained before, so that something else may rely on what they compute.
    """
    part = _frozen_part(model, norms)
    name = ".".join(each for each in (named(model, type(model).__name__), part) if each)
    turning = [
        body.place(statement)
        for body, statement, call in calls_around(frame)
        if callee(call)[1] == "train" and callee(call)[0] is not None
        if not call.args or is_constant(call.args[0], True)
    ]
    again = added(f"{name}.eval()", "below", turning[0]) if len(turning) == 1 else ""
    kinds = counted(len(norms), f"{type(norms[0]).__name__} layer")
    return Finding(
        "BS139",
        "warning" if trained else "note",
        f"{name} is frozen, but its running statistics are not.",
        (
            f"Its parameters have been frozen since step {numbered(since)} or earlier, but it is in training mode: "
            f"each forward pass updates the mean and variance of {kinds}, which evaluation uses.",
            *((shown(turning[0], "turns on training mode for the whole model."),) if len(turning) == 1 else ()),
        ),
        f"Call {name}.eval() after each train() while it is frozen{again}.",
        source=str(turning[0]) if len(turning) == 1 else None,
        since=since,
    )


def _frozen_part(model: torch.nn.Module, norms: list[torch.nn.Module]) -> str:
    """Return the path of the outermost module with these inside of which everything is frozen."""
    wanted = {id(each) for each in norms}
    for path, module in modules_in(model):
        held = list(parameters_in(module))
        if held and not any(p.requires_grad for p in held) and wanted & {id(m) for _, m in modules_in(module)}:
            return path
    return ""
