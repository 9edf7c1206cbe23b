"""BS155: a model drops values, or normalizes by the batch, where it is evaluated."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from types import CodeType, FrameType, FunctionType

import torch
from torch import nn

from backsight.diagnosis.amending import added, functional, instead
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.modes import BATCH_NORMS, DROPOUTS, in_mode
from backsight.diagnosis.program import calls_around, named, program_frames
from backsight.diagnosis.wording import listed, shown, warning
from backsight.naming.plain import namespace
from backsight.naming.roots import is_library, is_ours
from backsight.source import Body, Place, function_at, only, read_at
from backsight.source.body import callee, callers, calls_in, dotted, keyword, statement_at
from backsight.source.evaluations import always_dropping, chance, evaluates, is_meant, is_named_so
from backsight.tape import modules_in, registered

CODES = ("BS155",)


def acting(module: nn.Module) -> list[nn.Module]:
    """Return the modules inside that compute something else in training mode, and are in it."""
    return [each for _, each in modules_in(module) if each.__dict__.get("training", False) and _acts(each)]


def _acts(module: nn.Module) -> bool:
    if isinstance(module, DROPOUTS):
        return bool(module.__dict__.get("p", 0.0))
    if isinstance(module, nn.RNNBase):
        return bool(module.__dict__.get("dropout", 0.0))
    return isinstance(module, BATCH_NORMS) and registered(module, "_buffers").get("running_mean") is not None


def is_evaluation(frame: FrameType, training: Container[CodeType]) -> bool:
    """Whether what a frame runs evaluates, by the text; `training`: the functions from which steps are made."""
    inner = True
    for each in program_frames(frame):
        body, trains = function_at(each.f_code), each.f_code in training
        if body is None:
            continue
        if inner:
            if evaluates(body, each.f_lineno, trains=trains):
                return True
            inner = False
        if trains or is_meant(body):
            return False
        if is_named_so(body):
            return True
    return False


def in_training_mode(module: nn.Module, since: int, frame: FrameType, training: Container[CodeType]) -> Finding | None:
    """Return the finding that a model is evaluated in training mode by the statement that a frame runs."""
    modal = acting(module)
    around = next(program_frames(frame), None)
    body = function_at(around.f_code) if around is not None else None
    statement = statement_at(body, around.f_lineno) if body is not None and around is not None else None
    if not modal or body is None or statement is None or around is None:
        return None
    name, place = named(module, type(module).__name__), body.place(statement)
    function = "" if around.f_code in training else body.name
    again = any(_turns_on(call) for _, _, call in calls_around(frame))
    where = f"at the start of {function}()" if function else f"before line {place.line}"
    edit = _in_evaluation_mode(body, place, statement, name, function, again=again)
    back = f"{name}.train() turns training mode on again" if again else f"{name}.train() after it"
    return warning(
        "BS155",
        f"{name} is evaluated in training mode.",
        (
            shown(place, "calls it without gradients, but nothing has called eval()."),
            _in_training([*dict.fromkeys(type(each) for each in modal)]),
        ),
        f"Call {name}.eval() {where}{edit}" + (f"; {back}." if again else f", and {back}."),
        place,
        since=since,
    )


def _in_evaluation_mode(body: Body, place: Place, statement: ast.stmt, name: str, function: str, *, again: bool) -> str:
    """Turn evaluation mode on before a statement, or the function that it stands in, and training mode after it."""
    on, off = f"{name}.eval()", f"{name}.train()"
    start = body.place(body.node) if function and not isinstance(body.node, ast.Module) else place
    begin = added(on, "below" if function else "above", start)
    if again or not begin:
        return begin
    if not function:
        end = added(off, "beside", place) if not isinstance(statement, ast.Return) else ""
        return begin + end if end else ""
    called = only((other, each) for other, each, _ in callers(body))
    end = added(off, "beside", called[0].place(called[1])) if called and not isinstance(called[1], ast.Return) else ""
    return begin + end if end else ""


def _turns_on(call: ast.Call) -> bool:
    receiver, method = callee(call)
    return method == "train" and receiver is not None and not call.args


def _in_training(kinds: list[type]) -> str:
    """Say what these do in training mode.

    >>> _in_training([nn.Dropout, nn.BatchNorm1d])
    'Dropout drops values; BatchNorm1d normalizes by each batch, and updates its running statistics with this data.'
    """
    return in_mode(
        kinds,
        ("drops values", "drop values"),
        (
            "normalizes by each batch, and updates its running statistics with this data",
            "normalize by each batch, and update their running statistics with this data",
        ),
    )


def dropping(module: nn.Module) -> Iterator[tuple[Place, str, str]]:
    """Yield the statements in the program's modules inside of `module` that drop values in any mode.

    Each with the call as it is written, and as it should be.
    """
    seen: set[type] = set()
    for _, each in modules_in(module):
        if type(each) in seen or "mc" in type(each).__name__.lower():
            continue
        seen.add(type(each))
        held = namespace(each) or {}
        for kind in type(each).__mro__:
            for function in vars(kind).values():
                code = function.__code__ if isinstance(function, FunctionType) else None
                if code is None or is_library(code.co_filename) or is_ours(code.co_filename):
                    continue
                body = function_at(code)
                for place, call in always_dropping(body) if body is not None and not is_meant(body) else ():
                    if _is_possible(chance(call), held):
                        yield place, ast.unparse(call), _following(call)


def _is_possible(p: ast.expr | None, held: dict[str, object]) -> bool:
    """Whether something is dropped with a probability; what is no number, and no attribute that is one, may be 0."""
    if p is None:
        return True
    value: object = p.value if isinstance(p, ast.Constant) else None
    name = dotted(p) or ""
    if name.startswith("self."):
        value = held.get(name.removeprefix("self."))
    return type(value) is float and 0.0 < value < 1.0


def _following(call: ast.Call) -> str:
    """Write a call so that it follows the mode of the module."""
    p = chance(call)
    written = ast.unparse(p) if p is not None else "0.5"
    if callee(call)[1] == "scaled_dot_product_attention":
        return f"dropout_p={written} if self.training else 0.0"
    if isinstance(call.func, ast.Call):
        return f"F.dropout({ast.unparse(call.args[0]) if call.args else 'x'}, {written}, training=self.training)"
    return f"{ast.unparse(call)[:-1]}, training=self.training)"


def always_on(module: nn.Module, found: list[tuple[Place, str, str]], since: int, frame: FrameType) -> Finding:
    """Return the finding that a model in evaluation mode drops values."""
    name, (place, _, written) = named(module, type(module).__name__), found[0]
    around = next(program_frames(frame), None)
    body = function_at(around.f_code) if around is not None else None
    statement = statement_at(body, around.f_lineno) if body is not None and around is not None else None
    called = shown(body.place(statement), "calls it in evaluation mode.") if body and statement else None
    more = f" The same holds for {listed([str(p) for p, _, _ in found[1:]], 3)}." if len(found) > 1 else ""
    return warning(
        "BS155",
        f"{name} drops values in evaluation mode too.",
        (shown(place, "drops values in any mode: it ignores eval()."), called),
        f"Follow the mode of the module: {written}{''.join(map(_obeying, found))}.{more}",
        place,
        since=since,
    )


def _obeying(found: tuple[Place, str, str]) -> str:
    """Have a call that drops values follow the mode."""
    place, old, new = found
    body, statement = read_at(place)
    call = next((each for each in calls_in(statement) if ast.unparse(each) == old), None)
    if body is None or call is None:
        return ""
    if callee(call)[1] == "scaled_dot_product_attention":
        given = keyword(call, "dropout_p")
        return instead(body, statement, {given: new.partition("=")[2]}) if given is not None else ""
    return f"{instead(body, statement, {call: new})}{functional(body.file) if new.startswith('F.') else ''}"


def is_trained(module: nn.Module, ids: Container[int]) -> bool:
    """Whether something of a module has one of these ids and gets gradients."""
    return any(p.requires_grad and id(p) in ids for _, m in modules_in(module) for p in _own(m))


def _own(module: nn.Module) -> Iterator[torch.Tensor]:
    return (each for each in registered(module, "_parameters").values() if isinstance(each, torch.Tensor))
