"""BS148: what is kept is no copy: of a model's state, the model's own memory; of an optimizer's, that of a gradient."""

from __future__ import annotations

import ast
import re
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import FrameType
from typing import Any

import torch

from backsight.diagnosis.amending import instead, written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import files_around, named
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.naming import search
from backsight.source import Body, Place, only, read_at
from backsight.source.bindings import assigned
from backsight.source.body import callee, calls_in, dotted, functions, statements
from backsight.tape.saved import is_readable
from backsight.tracing.steps import parameters

CODES = ("BS148",)

_LOOKED_AT = 8
"""Values of a dict that are looked at for a tensor: a state has many, beside a number or two."""

_TRAINS = re.compile(r"step|train|fit|epoch|update|backward")


@dataclass(frozen=True)
class Kept:
    """A statement that keeps a state under a name, how it would keep a copy, and the one that loads it."""

    name: str
    model: str
    copied: str
    place: Place
    loaded: Place


def kept(frame: FrameType | None) -> list[Kept]:
    """Return the states that the program keeps, trains on, and loads into the same model."""
    found = []
    for file in files_around(frame):
        bodies = list(functions(file))
        loads = [each for body in bodies for each in _loads(body)]
        for body in bodies if loads else ():
            for statement, name, model, fix in _keeps(body):
                if any(_changes(other, name) for other in bodies):
                    continue
                fitting = [
                    (other, load)
                    for other, load, receiver, given in loads
                    if _last(given) == _last(name) and _last(receiver) == _last(model)
                    if _is_trained_between(body, statement, other, load)
                ]
                if fitting:
                    place = body.place(statement), fitting[0][0].place(fitting[0][1])
                    found.append(Kept(name, model, fix, *place))
    return found


def aliased(states: Iterable[Kept], optimizers: Iterable[torch.optim.Optimizer], since: int) -> list[Finding]:
    """Return the findings of those that hold the memory of what is trained, at the end of a step."""
    trained = {p.data_ptr() for each in optimizers for p in parameters(each) if is_readable(p)}
    held = set()
    for each, name in search((), collect=(dict,), where=_holds_tensor).found:
        if isinstance(each, dict) and any(_is_of(value, trained) for value in each.copy().values()):
            held.add(_last(name.path))
    return [_finding(each, since) for each in states if _last(each.name) in held]


def _holds_tensor(held: dict[Any, Any]) -> bool:
    return any(type(value) is torch.Tensor for value in islice(dict.values(held), _LOOKED_AT))


def _is_of(value: object, trained: set[int]) -> bool:
    return type(value) is torch.Tensor and is_readable(value) and value.numel() > 0 and value.data_ptr() in trained


def _keeps(body: Body) -> Iterator[tuple[ast.stmt, str, str, str]]:
    """Yield the statements that keep a state, or a shallow copy of one, with its name, the model's, and the fix."""
    for statement in statements(body.node):
        for target, whole in assigned(statement):
            name, value = dotted(target), whole
            if isinstance(value, ast.Call) and callee(value)[1] in ("copy", "dict"):
                receiver = callee(value)[0]
                value = value.args[0] if value.args else receiver or value
            if isinstance(value, ast.DictComp):
                value = _rebuilt(value) or value
            if name is None or not isinstance(value, ast.Call) or callee(value)[1] != "state_dict" or value.args:
                continue
            if (model := dotted(callee(value)[0])) is not None:
                copied = f"copy.deepcopy({model}.state_dict())"
                yield statement, name, model, _with(body, statement, whole, copied) or f"{name} = {copied}"


def _with(body: Body, statement: ast.stmt, old: ast.expr, new: str) -> str:
    """Return a statement with another value; nothing where it is not shown whole."""
    written, value = body.place(statement).text, body.text(old)
    return written.replace(value, new) if written.count(value) == 1 else ""


def _rebuilt(made: ast.DictComp) -> ast.expr | None:
    """Return the state of which `{k: v for k, v in state.items()}` has the tensors; None if it makes others of them."""
    match made:
        case ast.DictComp(
            value=ast.Name(id=value),
            generators=[
                ast.comprehension(
                    target=ast.Tuple(elts=[_, ast.Name(id=item)]),
                    iter=ast.Call(func=ast.Attribute(value=state, attr="items")),
                )
            ],
        ) if value == item:
            return state
    return None


def _loads(body: Body) -> Iterator[tuple[Body, ast.stmt, str, str]]:
    for statement in statements(body.node):
        for call in calls_in(statement):
            receiver, given = dotted(callee(call)[0]), dotted(call.args[0]) if call.args else None
            if callee(call)[1] == "load_state_dict" and receiver is not None and given is not None:
                yield body, statement, receiver, given


def _changes(body: Body, name: str) -> bool:
    """Whether entries of a state are replaced: then it is no longer the model's own."""
    for statement in statements(body.node):
        targets = (target for target, _ in assigned(statement))
        if any(isinstance(each, ast.Subscript) and _last(dotted(each.value) or "") == _last(name) for each in targets):
            return True
        if any(callee(c)[1] == "update" and dotted(callee(c)[0]) == name for c in calls_in(statement)):
            return True
    return False


def _is_trained_between(body: Body, keeping: ast.stmt, other: Body, loading: ast.stmt) -> bool:
    """Whether there are steps between both: it is kept on a condition, as the best is, or the text has them between."""
    under = [
        each
        for each in statements(body.node)
        if isinstance(each, ast.If) and each.lineno < keeping.lineno <= (each.end_lineno or 0)
    ]
    apart = body.node is not other.node
    if under and (apart or not any(each.lineno < loading.lineno <= (each.end_lineno or 0) for each in under)):
        return True
    return not apart and any(
        _TRAINS.search(callee(call)[1]) is not None
        for each in statements(body.node)
        if keeping.lineno < each.lineno < loading.lineno
        for call in calls_in(each)
    )


def _last(name: str) -> str:
    return name.split(".")[-1]


def _finding(found: Kept, since: int) -> Finding:
    return warning(
        "BS148",
        f"{found.name} is not a copy: it holds the parameters of {found.model} themselves, which keep changing.",
        (
            shown(found.place, "keeps what state_dict() returns: its tensors have the memory of the parameters."),
            shown(found.loaded, f"loads it, which changes nothing: {found.model} keeps its latest weights."),
        ),
        f"Copy it when you keep it: {found.copied}{written(found.place, found.copied)}.",
        found.place,
        since=since,
    )


_MOST = 4
"""Parameters of an optimizer that are looked at: what one has, the others have."""


@dataclass(frozen=True)
class SharedState:
    """An entry of a parameter's state that has the memory of its gradient."""

    optimizer: weakref.ref[torch.optim.Optimizer]
    key: object
    pointer: int


def shared_state(optimizer: torch.optim.Optimizer) -> Iterator[SharedState]:
    """Yield the entries of the state that have the memory of a gradient now."""
    held: Any = object.__getattribute__(optimizer, "__dict__").get("state", {})
    ref = weakref.ref(optimizer)
    for parameter in parameters(optimizer)[:_MOST]:
        gradient, entries = parameter.grad, held.get(parameter) if parameter in held else None
        if gradient is None or type(entries) is not dict or not _is_plain(gradient):
            continue
        for key, value in entries.items():
            if _is_plain(value) and value.data_ptr() == gradient.data_ptr() and value.shape == gradient.shape:
                yield SharedState(ref, key, gradient.data_ptr())


def _is_plain(value: object) -> bool:
    return type(value) is torch.Tensor and is_readable(value) and value.numel() > 0 and value.layout == torch.strided


def told_shared(shared: SharedState, optimizer: torch.optim.Optimizer, since: int) -> Finding:
    """Return the finding of such an entry, which the program's zero_grad() and backward() change."""
    name = named(optimizer, type(optimizer).__name__)
    place, text = _stored(type(optimizer), shared.key) or (None, "")
    key = f"{shared.key!r}" if isinstance(shared.key, str) else "an entry"
    return warning(
        "BS148",
        f"The state {key} of {name} is the gradient itself, not a copy: zero_grad() and backward() change it.",
        (
            if_known(place, "stores the gradient's own memory."),
            "It is lost or doubled in each step, so it accumulates nothing.",
        ),
        f"Store a copy: {place.text[: place.text.rindex(text)]}{text}.clone(){_copied(place, text)}."
        if place is not None
        else "Store a copy: p.grad.clone().",
        place,
        since=since,
    )


def _copied(place: Place, text: str) -> str:
    body, statement = read_at(place)
    values = [value for _, value in assigned(statement) if body is not None and body.text(value) == text]
    return instead(body, statement, {values[0]: f"{text}.clone()"}) if len(values) == 1 else ""


def _stored(kind: type, key: object) -> tuple[Place, str] | None:
    """Return the one statement that stores a gradient, or a name of it, under this key, and how it writes that."""
    code: Any = next((vars(c)["step"] for c in kind.__mro__ if "step" in vars(c)), None)
    while hasattr(code, "__wrapped__"):
        code = code.__wrapped__
    file = getattr(getattr(code, "__code__", None), "co_filename", "")
    return only(each for body in (functions(file) if file else ()) for each in _assigned(body, key))


def _assigned(body: Body, key: object) -> Iterator[tuple[Place, str]]:
    pairs = [(each, *pair) for each in statements(body.node) for pair in assigned(each)]
    grads = {
        name for _, goal, value in pairs if _is_gradient(value, frozenset()) and (name := dotted(goal)) is not None
    }
    for each, goal, value in pairs:
        match goal:
            case ast.Subscript(slice=ast.Constant(value=stored)) if stored == key and _is_gradient(value, grads):
                yield body.place(each), body.text(value)


def _is_gradient(value: ast.expr, names: frozenset[str] | set[str]) -> bool:
    """Whether an expression is a gradient, or has its memory: `p.grad`, `p.grad.data`, `grad.detach()`, `grad`."""
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr="detach" | "view_as" | "view")):
            return _is_gradient(inner, names)
        case ast.Attribute(value=inner, attr="data"):
            return _is_gradient(inner, names)
        case ast.Attribute(attr="grad"):
            return True
    return dotted(value) in names
