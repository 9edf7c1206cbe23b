"""Remedies for a function of PyTorch's that is given something else than it takes there: what that is."""

from __future__ import annotations

import ast
from typing import Any

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, objects_held, remedy, source_of
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.wording import listed, shown
from backsight.source import Body, only
from backsight.source.body import callee, keyword, statements
from backsight.source.edits import OR, on_line, on_line_with, put_at, sentence
from backsight.source.rewriting import rewritten, simple, with_flag
from backsight.story.evaluated import value_of
from backsight.story.memory import is_module, is_tensor


def _call(found: Refusal, first: str = "") -> tuple[Body, ast.stmt, ast.Call, ast.expr] | None:
    """The call that failed, in its statement and function, and what it is given first, also by keyword."""
    call, body, statement = found.expression, found.level.body, found.level.statement
    if not isinstance(call, ast.Call) or body is None or statement is None:
        return None
    given = next(iter(call.args), keyword(call, first) if first else None)
    return None if given is None or isinstance(given, ast.Starred) else (body, statement, call, given)


@remedy(r"returned by the function given to hessian should contain a single element")
def _hessian_of_a_vector(found: Refusal, match: Match) -> Remedy | None:
    """hessian() takes a function of one number, and gets one of a vector."""
    known = _call(found, "func")
    body = source_of(found.level, known[3]) if known is not None else None
    returned = only(each for each in statements(body.node) if isinstance(each, ast.Return)) if body else None
    if known is None or body is None or returned is None or returned.value is None:
        return None
    place, text = body.place(returned), body.text(returned.value)
    is_part = isinstance(known[3], ast.Lambda) or body.name == "<lambda>"
    summed = f"{simple(text)}.sum()"
    line = "" if is_part else rewritten(body, returned, {returned.value: summed})
    how = on_line(place, line) if line else f"return `{summed}`"
    return Remedy(
        f"hessian() takes a function that returns one number: for that of the sum, {how}. For a matrix for each entry "
        "of the result, use torch.func.hessian.",
        () if is_part else (shown(place, "returns more than one number."),),
        None if is_part else place,
    )


@remedy(r"vector v can only be None if the user-provided function returns a single Tensor")
def _weights_of_a_vjp(found: Refusal, match: Match) -> Remedy | None:
    """vjp() of a vector needs a weight for each entry."""
    known = _call(found, "func")
    if known is None:
        return None
    body, statement, call, function = known
    inputs = call.args[1] if len(call.args) == 2 else keyword(call, "inputs")
    if inputs is None or keyword(call, "v") is not None:
        return None
    unpacked = "" if is_tensor(value_of(found.level, inputs)) else "*"
    ones = f"torch.ones_like({simple(body.text(function))}({unpacked}{body.text(inputs)}))"
    line = with_flag(body, statement, call, "v", ones)
    how = f": for the gradient of their sum, {on_line(body.place(statement), line)}" if line else f", as `{ones}`"
    return Remedy(f"v is one weight for each entry of what the function returns{how}.")


@remedy(r"stack_module_state: Expected all models to have the same training/eval mode")
def _modes_mixed(found: Refusal, match: Match) -> Remedy | None:
    """Some of the models are in training mode, and others in evaluation."""
    known = _call(found, "models")
    models: Any = value_of(found.level, known[3]) if known is not None else None
    if known is None or type(models) not in (list, tuple):
        return None
    text, at = known[0].text(known[3]), found.level.place
    training = [k for k, each in enumerate(models) if is_module(each) and each.training]
    one = next(name for name in ("each", "model", "member") if name not in found.level.variables)
    puts = [put_at(f"for {one} in {text}: {one}.{mode}()", "above", at) for mode in ("train", "eval")]
    return Remedy(
        f"One stack has one mode. To train them, {puts[0]}. {OR}To evaluate them, {puts[1]}.",
        (f"Of {len(models)} models in {text}, {len(training)} in training mode: {listed([*map(str, training)], 4)}.",),
    )


@remedy(r"Serialization of parametrized modules is only supported through state_dict")
def _parametrized_saved(found: Refusal, match: Match) -> Remedy | None:
    """A module with a parametrization is saved whole."""
    known = _call(found, "obj")
    if known is None or callee(known[2])[1] != "save" or not is_module(value_of(found.level, known[3])):
        return None
    body, statement, _, given = known
    text = body.text(given)
    how = on_line_with(body, statement, {given: f"{simple(text)}.state_dict()"})
    if not how:
        return None
    return Remedy(
        f"{sentence(how)}, and load it into a module made and parametrized alike, by load_state_dict(). To save it "
        f"whole, remove_parametrizations of torch.nn.utils.parametrize must have made plain parameters of it before."
    )


@remedy(r"^expected torch\.Tensor, but got: (list|tuple)")
def _list_for_a_vector(found: Refusal, match: Match) -> Remedy | None:
    """vector_to_parameters() is given a list."""
    known = _call(found, "vec")
    held: Any = value_of(found.level, known[3]) if known is not None else None
    if known is None or callee(known[2])[1] != "vector_to_parameters" or type(held) not in (list, tuple):
        return None
    body, statement, _, given = known
    text = body.text(given)
    name = next(each for each in ("each", "part", "w") if each not in found.level.variables)
    parts = bool(held) and all(is_tensor(each) for each in held)
    plain = bool(held) and all(type(each) in (int, float) for each in held)
    new = f"torch.cat([{name}.reshape(-1) for {name} in {text}])" if parts else f"torch.tensor({text})" if plain else ""
    how = on_line_with(body, statement, {given: new}) if new else ""
    return (
        Remedy(f"It takes one vector, with the values of all parameters one after the other: {how}.") if how else None
    )


@remedy(r"has no attribute 'param_groups'|is not an Optimizer")
def _scheduled(found: Refusal, match: Match) -> Remedy | None:
    """A scheduler is given parameters instead of the optimizer that has them."""
    known, level = _call(found, "optimizer"), found.level
    optimizer = only(objects_held(level, torch.optim.Optimizer))
    if known is None or optimizer is None or issubclass(type(value_of(level, known[3])), torch.optim.Optimizer):
        return None
    how = on_line_with(known[0], known[1], {known[3]: optimizer})
    return Remedy(f"A scheduler takes the optimizer whose learning rate it changes: {how}.") if how else None
