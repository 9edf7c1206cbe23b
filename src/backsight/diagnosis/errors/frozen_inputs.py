"""BS227: a reentrant checkpoint is given nothing that requires grad, and what is inside gets no gradients."""

from __future__ import annotations

import ast
import re
from types import MethodType
from typing import Any

from backsight.diagnosis._torch import CHECKPOINT_FILE
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.reentrant import CHECKPOINTS
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, shown
from backsight.naming.plain import namespace
from backsight.source.bindings import spots
from backsight.source.body import callee, expressions, keyword
from backsight.source.cut_rules import grad_mode
from backsight.source.rewriting import rewritten
from backsight.story.failure import Failure, Level
from backsight.story.memory import is_module, needs_gradient
from backsight.tape import modules_in, parameters_in


@explains("BS227", r"None of the inputs have requires_grad=True\. Gradients will be None", severity="warning")
def frozen_inputs(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the call of checkpoint, what it runs, and how many parameters inside get no gradient."""
    module, method = _run(failure)
    name = names_of(failure, [module])[0] if module is not None else ""
    trained = [each for each in parameters_in(module) if needs_gradient(each)] if is_module(module) else []
    where = failure.user.place if failure.user else None
    asked = (shown(where, "runs it on inputs that do not require grad."),) if where else ()
    if _is_evaluated(failure):
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
        _fix(failure),
        source=failure.source,
        exact=bool(trained),
    )


def _run(failure: Failure) -> tuple[object, str]:
    """The module that the checkpoint runs, and the name of the method where it runs another than the whole."""
    for level in reversed(failure.levels):
        if level.frame.f_code.co_filename == CHECKPOINT_FILE and "run_function" in level.variables:
            held: Any = level.variables["run_function"]
            method = held.__name__ if type(held) is MethodType else ""
            owner = held.__self__ if type(held) is MethodType else held
            return (owner, "" if method == "forward" else method) if is_module(owner) else (None, "")
    return None, ""


def _is_evaluated(failure: Failure) -> bool:
    """Whether a block or decorator around the call disables gradients: PyTorch warns then too."""
    for level in failure.users:
        around = spots(level.body.node) if level.body else []
        arms = next((each.arms for each in around if each.node is level.statement), ())
        items = [item.context_expr for arm, _ in arms if isinstance(arm, ast.With) for item in arm.items]
        items += getattr(level.body.node, "decorator_list", []) if level.body else []
        if any(grad_mode(each) not in (None, "on") for each in items):
            return True
    return False


def _fix(failure: Failure) -> str:
    level = failure.user
    call = _call(level) if level else None
    if level is not None and level.body is not None and call is not None:
        given = keyword(call, "use_reentrant")
        text = level.body.text(call)
        change: dict[ast.expr, str] = {given: "False"} if given else {call: f"{text[:-1]}, use_reentrant=False)"}
        new = rewritten(level.body, level.statement, change) if level.statement and "…" not in text else ""
        return f"On line {level.line}, write `{new}`." if new else "Pass use_reentrant=False to checkpoint."
    model = _checkpointing(failure)
    if model:
        enable = f"{model}.gradient_checkpointing_enable(gradient_checkpointing_kwargs={{'use_reentrant': False}})"
        return f"Call {enable}, or {model}.enable_input_require_grads()."
    return "Set use_reentrant=False in the checkpoint, or give it an input that requires grad."


def _call(level: Level) -> ast.Call | None:
    for node in expressions(level.statement) if level.statement else ():
        if isinstance(node, ast.Call) and callee(node)[1] in CHECKPOINTS:
            return node
    return None


def _checkpointing(failure: Failure) -> str:
    """A model of the transformers library that checkpoints its layers, by a variable of the functions that run."""
    for level in failure.users:
        for name, value in level.variables.items():
            inside = (namespace(each) or {} for _, each in modules_in(value)) if is_module(value) else ()
            if any(each.get("gradient_checkpointing") is True for each in inside):
                return name
    return ""
