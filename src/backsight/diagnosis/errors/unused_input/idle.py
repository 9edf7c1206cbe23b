"""Parameters of a model whose forward does not use them, or not what it computes with them: None would hide that."""

from __future__ import annotations

from backsight.diagnosis.errors.unused_input.case import Unused
from backsight.diagnosis.evidence.idle import Reason, dropped, idle_in, never_used, parameter_at, trainable, whole
from backsight.story.memory import is_module


def left_idle(case: Unused) -> Reason | None:
    """Why the forward of a model leaves out all the parameters that were asked for in vain, if its text shows that."""
    missing = {id(each) for each in case.tensors}
    held = (value for level in case.failure.users for value in level.variables.values() if is_module(value))
    for module in {id(each): each for each in held}.values():
        every = list(trainable(module))
        names = [each for each in every if id(parameter_at(module, each)) in missing]
        if len(names) == len(missing):
            idle = [idle_in(module, path) for path in whole(names, every)]
            return never_used(idle) or next((reason for each in idle if (reason := dropped(each))), None)
    return None
