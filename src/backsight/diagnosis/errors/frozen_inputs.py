"""BS227: a reentrant checkpoint is given nothing that requires grad, and what is inside gets no gradients."""

from __future__ import annotations

import re
from types import MethodType
from typing import Any

from backsight.diagnosis._torch import CHECKPOINT_FILE
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.reentrant import reentrant_call, without_reentry
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, shown
from backsight.story.failure import Failure
from backsight.story.memory import is_module, needs_gradient
from backsight.story.modes import nearest_at
from backsight.tape import parameters_in


@explains("BS227", r"None of the inputs have requires_grad=True\. Gradients will be None", severity="warning")
def frozen_inputs(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the call of checkpoint, what it runs, and how many parameters inside get no gradient."""
    module, method = _run(failure)
    name = names_of(failure, [module])[0] if module is not None else ""
    trained = [each for each in parameters_in(module) if needs_gradient(each)] if is_module(module) else []
    where = failure.user.place if failure.user else None
    asked = (shown(where, "runs it on inputs that do not require grad."),) if where else ()
    if any(nearest_at(level.body, level.line) for level in failure.users if level.body):  # PyTorch warns then too
        return explanation(
            "A reentrant checkpoint runs with gradients disabled, so none of its inputs requires grad, as expected.",
            asked,
            "Nothing is lost. In evaluation, call the function without the checkpoint: the result is the same.",
            source=failure.source,
            harmless=True,
        )
    if is_module(module) and not trained and not method:
        return explanation(
            f"{name or 'A module'} runs in a reentrant checkpoint, and nothing in it requires grad.",
            asked,
            f"Nothing is lost, because it is frozen. Call {name or 'it'} without the checkpoint, which saves no "
            "memory here.",
            source=failure.source,
            harmless=True,
        )
    many = f"The {counted(len(trained), 'parameter')} of {name}" if len(trained) > 1 else f"The parameter of {name}"
    what = many if trained and name and not method else "The function in this checkpoint"
    if method and name:
        what = f"The parameters that {name}.{method}() uses"
    verb = "get" if (what is many and len(trained) > 1) or (method and name) else "gets"
    return explanation(
        f"{what} {verb} no gradient: with use_reentrant=True, checkpoint records nothing if no input requires grad.",
        asked,
        without_reentry(failure, reentrant_call(failure)) or _UNKNOWN,
        source=failure.source,
        exact=bool(trained),
    )


_UNKNOWN = "Set use_reentrant=False in the checkpoint, or give it an input that requires grad."


def _run(failure: Failure) -> tuple[object, str]:
    """The module that the checkpoint runs, and the name of the method where it runs another than the whole."""
    for level in reversed(failure.levels):
        if level.frame.f_code.co_filename == CHECKPOINT_FILE and "run_function" in level.variables:
            held: Any = level.variables["run_function"]
            method = held.__name__ if type(held) is MethodType else ""
            owner = held.__self__ if type(held) is MethodType else held
            return (owner, "" if method == "forward" else method) if is_module(owner) else (None, "")
    return None, ""
