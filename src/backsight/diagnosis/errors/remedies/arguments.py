"""Remedies for arguments that do not go together: which to leave out, where the failing statement gives them."""

from __future__ import annotations

import ast

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy
from backsight.diagnosis.evidence.refused import Refusal
from backsight.source import calls_of
from backsight.source.body import callee, calls_in, keyword
from backsight.source.edits import OR, Edit, change, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.files import user_files


@remedy(r"`fused` and `foreach` cannot be")
def _one_implementation(found: Refusal, match: Match) -> Remedy:
    return Remedy(f"Leave out foreach=True{_without(found, 'foreach')}: fused=True is the faster of the two.")


@remedy(r"`fused=True` requires all the params")
def _fused_elsewhere(found: Refusal, match: Match) -> Remedy:
    return Remedy(
        f"Leave out fused=True{_without(found, 'fused')}, {OR}or move the model to a device in floating point before "
        "the optimizer is made."
    )


@remedy(r"fused.* does not support .?differentiable")
def _fused_and_differentiable(found: Refusal, match: Match) -> Remedy:
    one, other = (_without(found, name) for name in ("differentiable", "fused"))
    return Remedy(f"Leave out one of fused=True and differentiable=True{one}{OR}{other}.")


@remedy(r"as a Tensor is not supported for capturable=False")
def _rate_as_a_number(found: Refusal, match: Match) -> Remedy:
    call, body, statement = _call(found, "lr"), found.level.body, found.level.statement
    rate = keyword(call, "lr") if call is not None else None
    new, text = "", "lr"
    if body is not None and statement is not None and rate is not None:
        text = body.text(rate)
        new = rewritten(body, statement, {rate: f"{simple(text)}.item()"})
    number = write(found.level.place, new) if new else ""
    return Remedy(f"Pass a number, lr.item(){number}, {OR}or leave out foreach=True{_without(found, 'foreach')}.")


@remedy(r"Cannot use both regular backward hooks and full backward hooks")
def _two_kinds_of_hooks(found: Refusal, match: Match) -> Remedy:
    old, new = ".register_backward_hook(", ".register_full_backward_hook("
    calls = calls_of(*user_files(found.failure))
    places = dict.fromkeys(body.place(each) for body, each, call in calls if f".{callee(call)[1]}(" == old)
    edits = "".join(str(change(each, old, new)) for each in places if each.last == each.line)
    return Remedy(
        f"Register all hooks of {found.module_name or 'module'} with register_full_backward_hook(){edits}: "
        "register_backward_hook() is deprecated, and both cannot be on one module."
    )


def _call(found: Refusal, name: str) -> ast.Call | None:
    """The call of the failing statement that is given an argument by this name."""
    return next((each for each in calls_in(found.level.statement) if keyword(each, name) is not None), None)


def _without(found: Refusal, name: str) -> Edit | str:
    """The failing statement without an argument."""
    call, body, statement = _call(found, name), found.level.body, found.level.statement
    if call is None or body is None or statement is None or any(each.arg is None for each in call.keywords):
        return ""
    kept = [f"{each.arg}={body.text(each.value)}" for each in call.keywords if each.arg != name]
    given = ", ".join([*map(body.text, call.args), *kept])
    new = rewritten(body, statement, {call: f"{body.text(call.func)}({given})"})
    return write(found.level.place, new) if new else ""
