"""A gradient that the program assigns itself, `p.grad = ...`, in another dtype or shape, or on another device."""

from __future__ import annotations

import ast
import math
import re

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.gradients import Held
from backsight.diagnosis.evidence.paired import fits_another, paired
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shaped, shown
from backsight.findings.evidence import Fact
from backsight.source.rewriting import simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.memory import is_tensor
from backsight.tape.rows import dtype_name

_MADE = "The gradient of a tensor has its shape, its dtype and its device."


def gradient_assigned(failure: Failure, differs: str) -> Finding:
    """Say in what the two differ, and write the statement that assigns a gradient which fits.

    differs: "dtype", "device", "size" or "layout".
    """
    level = failure.user
    statement = level.statement if level else None
    target = _target(statement)
    if level is None or level.body is None or target is None or not isinstance(statement, ast.Assign):
        return _by_message(failure)
    text, value = level.body.text(target.value), level.body.text(statement.value)
    tensor, given = value_of(level, target.value), value_of(level, statement.value)
    name = Held(failure, level, text, tensor).name if is_tensor(tensor) else text
    has = _described(tensor, differs)
    got = _described(given, differs) or _quoted(failure.message)
    lines: list[Fact] = [shown(level.place, f"assigns a gradient {got} to {text}.grad." if got else "assigns it.")]
    lines.append(f"{name} {has.replace('of shape', 'has shape').replace('with', 'has')}." if has else _MADE)
    pair = paired(failure, level, text) if differs == "size" else None
    if pair is not None:
        fix = f"write `{pair.mended}` on line {pair.loop.line}" if pair.mended else f"pair them with {pair.order}"
        others = [shown(pair.ordered, f"gives {pair.parameters} another order.")] if pair.ordered else []
        lines[:0] = [
            *others,
            shown(pair.loop, f"pairs {pair.parameters} with {pair.gradients}, which has the shapes of {pair.order}."),
        ]
        return explanation(
            f"The gradient assigned to {name}.grad belongs to another parameter: it has a different shape.",
            tuple(lines),
            f"Pair both in the same order: {fix}.",
            source=str(pair.ordered or pair.loop),
            exact=is_tensor(tensor),
        )
    return explanation(
        f"The gradient assigned to {name}.grad has a different {_WHAT[differs]} than {name}.",
        tuple(lines),
        (_of_shape(level, target, value, text, tensor, given, failure.message) if differs == "size" else "")
        or _fix(level, target, value, text, differs),
        source=failure.source,
        exact=is_tensor(tensor),
    )


_SIZE = re.compile(r"gradient of size '\[([\d, ]+)\]'")
_WHAT = {"dtype": "dtype", "device": "device", "size": "shape", "layout": "layout"}


def _target(statement: ast.stmt | None) -> ast.Attribute | None:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return next((each for each in targets if isinstance(each, ast.Attribute) and each.attr == "grad"), None)


def _described(value: object, differs: str) -> str:
    """`with dtype float64`, `of shape 3x2`; empty for what is no tensor."""
    if not is_tensor(value):
        return ""
    if differs == "size":
        return f"of shape {shaped(value.shape)}"
    of = {"dtype": dtype_name(value.dtype), "device": str(value.device), "layout": str(value.layout)}[differs]
    return f"with {_WHAT[differs]} {of}"


def _quoted(message: str) -> str:
    """What PyTorch says of the gradient: `with dtype 'double'`."""
    return message.partition("assign a gradient ")[2].partition(" to a tensor")[0]


def _fix(level: Level, target: ast.Attribute, value: str, text: str, differs: str) -> str:
    assigned = level.body.text(target) if level.body else f"{text}.grad"
    if value.endswith("…"):
        value = "gradient"
    match differs:
        case "dtype":
            return f"Convert it: {assigned} = {simple(value)}.to({text}.dtype). NumPy computes in float64 by default."
        case "device":
            return f"Move it: {assigned} = {simple(value)}.to({text}.device)."
        case "size":
            return (
                f"Assign the gradient of {text} itself: pair gradients and parameters by name. If the entries are in "
                f"the same order, {assigned} = {simple(value)}.view_as({text})."
            )
    return f"Convert it to the layout of {text}: {assigned} = {simple(value)}.to_dense()."


def _of_shape(
    level: Level, target: ast.Attribute, value: str, text: str, tensor: object, given: object, message: str
) -> str:
    """The fix where the shapes tell which it is: as many entries, as a part of a flat vector has, or others; empty
    where one shape is a permutation of the other, and may be that of another parameter."""
    if not is_tensor(tensor) or level.body is None or value.endswith("…"):
        return ""
    if is_tensor(given):
        shape = tuple(given.shape)
    else:  # a slice is not evaluated: PyTorch's message has its size
        found = _SIZE.search(message)
        shape = tuple(map(int, found[1].split(","))) if found else ()
    if not shape or sorted(shape) == sorted(tensor.shape):
        return ""
    if math.prod(shape) != tensor.numel() or (len(shape) > 1 and fits_another(level, tensor, shape)):
        return f"Assign the gradient of {text} itself: pair gradients and parameters by name."
    return (
        f"It has as many entries: on line {level.place.line}, write `{level.body.text(target)} = "
        f"{simple(value)}.view_as({text})`."
    )


def _by_message(failure: Failure) -> Finding:
    return explanation(
        "A gradient is assigned that does not fit its tensor.",
        (*failing(failure, "assigns it."), _MADE),
        "Convert it first: p.grad = gradient.to(p).",
        source=failure.source,
        exact=False,
    )
