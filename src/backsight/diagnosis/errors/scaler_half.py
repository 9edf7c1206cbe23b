"""BS224: the weights of an optimizer are in half precision, which a GradScaler does not take."""

from __future__ import annotations

import ast

import torch

from backsight.diagnosis.errors.scaler_calls import Call, Misused
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, if_known, listed, shown
from backsight.source import calls_of
from backsight.source.bindings import assigned
from backsight.source.body import callee
from backsight.source.edits import OR, put_at, without_marks, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.files import user_files
from backsight.story.fixes import removed
from backsight.story.memory import is_module, needs_gradient
from backsight.tape import parameters_in
from backsight.text import as_code


def half_precision(misused: Misused) -> Finding:
    """The weights themselves are in half precision."""
    half = [p for p in misused.parameters if p.dtype == torch.float16]
    cast = next((each for each in misused.calls if _is_to_half(each) and _converts(each, half)), None)
    many, verb = counted(len(half), "parameter") if half else "The weights", "is" if len(half) == 1 else "are"
    named = [as_code(each) for each in names_of(misused.failure, half) if each and ".param_groups[" not in each]
    text = simple(cast.section.body.text(callee(cast.node)[0])) if cast else "the model"  # type: ignore[arg-type]
    how = f"{text} without the cast{_without(cast)}"
    if cast and isinstance(cast.spot.node, ast.Expr) and len(cast.node.args) + len(cast.node.keywords) < 2:
        how = f"so {removed(cast.place)}"
    module = cast.receiver if cast else None
    frozen = is_module(module) and any(not needs_gradient(p) for p in parameters_in(module) if p.dtype == torch.float16)
    alone = ""
    if cast and frozen and isinstance(cast.spot.node, ast.Expr):
        code = f"for p in {text}.parameters(): p.data = p.data.float() if p.requires_grad else p.data"
        alone = f" {OR}To keep the frozen weights alone in float16, {put_at(code, 'below', cast.place)}."
    has_autocast = any(callee(call)[1] == "autocast" for *_, call in calls_of(*user_files(misused.failure)))
    fix = (
        f"Keep the weights in float32, {how}, and run the forward pass under torch.autocast, which computes in float16 "
        f"where that is safe.{alone}"
    )
    return misused.told(
        f"{many} of {misused.argument} {verb} float16, but a GradScaler needs float32 weights.",
        cast.place if cast else misused.asked,
        (
            shown(cast.place, "converts the weights to float16.") if cast else None,
            f"{listed(named, 4)}: float16." if half and len(named) == len(half) else None,
            if_known(misused.asked, "unscales gradients that are float16, like their weights."),
        ),
        fix if has_autocast else without_marks(fix),
        exact=cast is not None,
    )


def _without(cast: Call | None) -> str:
    """The statement without the cast: a call of `to` keeps what else it is given."""
    if cast is None:
        return ""
    body, receiver = cast.section.body, callee(cast.node)[0]
    left = [body.text(each) for each in cast.node.args if not _is_half(cast, each)]
    left += [f"{each.arg}={body.text(each.value)}" for each in cast.node.keywords if not _is_half(cast, each.value)]
    text = body.text(receiver) if receiver is not None else ""
    given = ", ".join(left)
    new = rewritten(body, cast.spot.node, {cast.node: f"{text}.{cast.method}({given})" if given else text})
    return str(write(cast.place, new)) if text and new else ""


def _is_half(call: Call, given: ast.expr) -> bool:
    return value_of(call.section, given) is torch.float16 or call.section.body.text(given).endswith("float16")


def _is_to_half(call: Call) -> bool:
    """Whether a call converts to float16, under whatever name the dtype is passed."""
    given = [*call.node.args, *(each.value for each in call.node.keywords)]
    known = any(value_of(call.section, each) is torch.float16 for each in given)
    return call.method == "half" or (call.method == "to" and (known or "float16" in call.section.body.text(call.node)))


def _converts(call: Call, half: list[torch.Tensor]) -> bool:
    """Whether it converts a module that has some of these parameters."""
    named = (target for target, value in assigned(call.spot.node) if any(each is call.node for each in ast.walk(value)))
    held = [call.receiver, *(value_of(call.section, each) for each in named)]
    known = [p for each in held if is_module(each) for p in parameters_in(each)]
    return any(p is each for p in known for each in half) if half else bool(known)
