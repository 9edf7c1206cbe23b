"""A gradient that the program assigns itself, `p.grad = ...`, in another dtype or shape, or on another device."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.gradients import Held
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shaped, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import namespace
from backsight.source import Place, assignments, only
from backsight.source.body import callee, dotted, functions, statements
from backsight.source.edits import OR, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.files import user_files
from backsight.story.memory import is_module, is_tensor, needs_gradient, shape_of
from backsight.tape import parameters_in
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
    got = _described(given, differs) or failure.message.partition("assign a gradient ")[2].partition(" to a tensor")[0]
    lines: list[Fact] = [shown(level.place, f"assigns a gradient {got} to {text}.grad." if got else "assigns it.")]
    lines.append(f"{name} {has.replace('of shape', 'has shape').replace('with', 'has')}." if has else _MADE)
    pair = paired(failure, level, text) if differs == "size" else None
    if pair is not None:
        fix = f"pair them with {pair.order}"
        if pair.mended:
            fix = f"write `{pair.mended}` on line {pair.loop.line}{write(pair.loop, pair.mended)}"
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


def _fix(level: Level, target: ast.Attribute, value: str, text: str, differs: str) -> str:
    call = {"dtype": f"to({text}.dtype)", "device": f"to({text}.device)", "size": f"view_as({text})"}.get(differs)
    new = _assigned(level, target, value, call or "to_dense()")
    match differs:
        case "dtype":
            return f"Convert it: {new}. NumPy computes in float64 by default."
        case "device":
            return f"Move it: {new}."
        case "size":
            return (
                f"Assign the gradient of {text} itself: pair gradients and parameters by name. {OR}If the entries are "
                f"in the same order, {new}."
            )
    return f"Convert it to the layout of {text}: {new}."


def _assigned(level: Level, target: ast.Attribute, value: str, call: str, mark: str = "") -> str:
    """The assignment of a converted gradient, between two marks, and the edit, where it assigns nothing else."""
    new = f"{ast.unparse(target)} = {simple('gradient' if value.endswith('…') else value)}.{call}"
    alone = isinstance(level.statement, ast.Assign) and len(level.statement.targets) == 1
    return f"{mark}{new}{mark}{write(level.place, new) if alone and not value.endswith('…') else ''}"


def _of_shape(
    level: Level, target: ast.Attribute, value: str, text: str, tensor: object, given: object, message: str
) -> str:
    """The fix that the shapes tell; empty where one is a permutation of the other, perhaps another parameter's."""
    if not is_tensor(tensor) or level.body is None or value.endswith("…"):
        return ""
    if is_tensor(given):
        shape = tuple(given.shape)
    else:  # a slice is not evaluated: PyTorch's message has its size
        found = _SIZE.search(message)
        shape = tuple(map(int, found[1].split(","))) if found else ()
    if not shape or sorted(shape) == sorted(tensor.shape):
        return ""
    if math.prod(shape) != tensor.numel() or len(shape) > 1:
        return f"Assign the gradient of {text} itself: pair gradients and parameters by name."
    new = _assigned(level, target, value, f"view_as({text})", "`")
    return f"It has as many entries: on line {level.place.line}, write {new}."


def _by_message(failure: Failure) -> Finding:
    return explanation(
        "A gradient is assigned that does not fit its tensor.",
        (*failing(failure, "assigns it."), _MADE),
        "Convert it first: p.grad = gradient.to(p).",
        source=failure.source,
        exact=False,
    )


# Parameters and gradients that a loop pairs, `zip(weights, gradients)`, in two different orders.


@dataclass(frozen=True, eq=False)
class Paired:
    """A loop whose two lists do not have the same order.

    parameters, gradients: what it writes for them. ordered: the statement that puts the parameters in their order, if
    it is not that of the module. order: what has the order of the gradients, `net.parameters()`; mended: the loop with
    that.
    """

    loop: Place
    parameters: str
    gradients: str
    ordered: Place | None
    order: str
    mended: str


def paired(failure: Failure, level: Level, parameter: str) -> Paired | None:
    """Return the loop that pairs `parameter` with a gradient; None unless the shapes tell what the gradients are of."""
    loop, mine, others = _zipped(level, parameter)
    body = level.body
    if body is None or loop is None or mine is None or others is None:
        return None
    weights, gradients = _listed(level, mine), _listed(level, others)
    if not gradients or (weights and _fits(weights, gradients)):
        return None
    named = isinstance(mine, ast.Call) and callee(mine)[1] in ("named_parameters", "items")
    for name, module in _modules(level):
        own = _own(module)
        for order, tensors in _orders(name, own, named):
            if (weights and {*map(id, weights)} - {*map(id, own)}) or not _fits(tensors, gradients):
                continue
            if weights and [*map(id, weights)] == [*map(id, tensors)]:
                continue
            is_other = bool(weights) and [*map(id, weights)] != [*map(id, own)]
            return Paired(
                body.place(loop),
                body.text(mine),
                body.text(others),
                _ordered(failure, level, mine) if is_other else None,
                order,
                rewritten(body, loop, {mine: order}),
            )
    return None


def _zipped(level: Level, parameter: str) -> tuple[ast.For, ast.expr, ast.expr] | tuple[None, None, None]:
    """The innermost loop over `zip` that gives the parameter, what it takes that from, and what the gradient."""
    every = statements(level.body.node) if level.body else ()
    loops = [each for each in every if isinstance(each, ast.For) and each.lineno < level.line <= (each.end_lineno or 0)]
    for loop in reversed(loops):
        call, target = loop.iter, loop.target
        if (
            isinstance(call, ast.Call)
            and callee(call)[1] == "zip"
            and len(call.args) == 2
            and isinstance(target, ast.Tuple)
        ):
            names = [parameter in {n.id for n in ast.walk(each) if isinstance(n, ast.Name)} for each in target.elts]
            if len(names) == 2 and any(names):
                first, second = call.args
                return (loop, first, second) if names[0] else (loop, second, first)
    return None, None, None


def _listed(level: Level, node: ast.expr) -> list[torch.Tensor]:
    """The tensors that an expression lists, in their order: a list, the values of a dict, a module's parameters."""
    receiver, name = callee(node) if isinstance(node, ast.Call) else (None, "")
    held: Any = value_of(level, receiver if receiver is not None else node)
    if is_module(held) and name in ("parameters", "named_parameters"):
        return _own(held)
    if type(held) is dict and name in ("values", "items", ""):
        held = list(held if name == "" else held.values())
    elif receiver is not None:
        return []
    return [*held] if type(held) in (list, tuple) and all(map(is_tensor, held)) else []


def _fits(weights: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor]) -> bool:
    return [*map(shape_of, weights)] == [*map(shape_of, gradients)]


def _modules(level: Level) -> Iterator[tuple[str, torch.nn.Module]]:
    """The modules that the failing function has a name for, the largest first."""
    own = [f"self.{name}" for name in namespace(level.value("self")) or {}]
    names = (*own, *level.variables, *level.frame.f_globals)
    held = {name: each for name in names if is_module(each := level.value(name))}
    yield from sorted(held.items(), key=lambda pair: -len(_own(pair[1])))


def _own(module: torch.nn.Module) -> list[torch.Tensor]:
    """The parameters as `parameters()` gives them, each once."""
    return list({id(each): each for each in parameters_in(module)}.values())


def _orders(name: str, own: Sequence[torch.Tensor], named: bool) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """The orders that gradients of a module have, each as it is written; with the names, where the loop takes those."""
    every, one = (f"{name}.named_parameters()", "(n, p)") if named else (f"{name}.parameters()", "p")
    yield every, [*own]
    yield f"[{one} for {one.strip('()')} in {every} if p.requires_grad]", [each for each in own if needs_gradient(each)]
    yield f"reversed([*{every}])", [*reversed(own)]


def _ordered(failure: Failure, level: Level, node: ast.expr) -> Place | None:
    """The only statement of the program that gives the list its value."""
    name = dotted(callee(node)[0] if isinstance(node, ast.Call) else node) or ""
    if "." not in name:
        return next(reversed(assignments(level.body, name, before=level.line)), None) if name else None
    return only(place for file in user_files(failure) for body in functions(file) for place in assignments(body, name))
