"""BS148: what is kept is no copy: of a model's state, the model's own memory; of an optimizer's, that of a gradient."""

from __future__ import annotations

import ast
import re
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from inspect import unwrap
from itertools import islice
from types import FrameType
from typing import Any

import torch

from backsight.diagnosis.amending import instead, written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import conditions_around, ending, files_around, named
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.naming import search
from backsight.source import Place, only, read_at
from backsight.source.bindings import assigned
from backsight.source.body import Body, callee, calls_in, dotted, functions, statements
from backsight.story.failure import method
from backsight.tape.saved import is_readable
from backsight.tracing import Copy
from backsight.tracing.steps import parameters

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
                    if ending(given) == ending(name) and ending(receiver) == ending(model)
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
            held.add(ending(name.path))
    return [_finding(each, since) for each in states if ending(each.name) in held]


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
        if any(isinstance(each, ast.Subscript) and ending(dotted(each.value)) == ending(name) for each in targets):
            return True
        if any(callee(c)[1] == "update" and dotted(callee(c)[0]) == name for c in calls_in(statement)):
            return True
    return False


def _is_trained_between(body: Body, keeping: ast.stmt, other: Body, loading: ast.stmt) -> bool:
    """Whether there are steps between both: it is kept on a condition, as the best is, or the text has them between."""
    under, apart = conditions_around(body, keeping.lineno), body.node is not other.node
    if under and (apart or not set(under) & set(conditions_around(body, loading.lineno))):
        return True
    return not apart and any(
        _TRAINS.search(callee(call)[1]) is not None
        for each in statements(body.node)
        if keeping.lineno < each.lineno < loading.lineno
        for call in calls_in(each)
    )


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
    step = unwrap(method(kind, "step"))
    file = getattr(getattr(step, "__code__", None), "co_filename", "")
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


# A backup that is the weights themselves, so that to restore it copies them onto themselves.


def own_backup(copies: Iterable[Copy]) -> Iterator[Finding]:
    """Yield the findings of statements that copy tensors onto themselves, if one statement stores them uncopied.

    >>> self.saved[n] = p.data      # and later: p.data.copy_(self.saved[n])
    """
    for each in copies:
        kept = _container(each.call.args[0]) or _of_items(each.body, each.call.args[0])
        stored = [found for body in functions(each.body.file) for found in _stores(body, kept)] if kept else []
        if len(stored) != 1:
            continue
        (body, statement, value), place = stored[0], each.body.place(each.statement)
        at, text = body.place(statement), body.text(value)
        edit = instead(body, statement, {value: f"{text}.clone()"})
        yield warning(
            "BS148",
            f"{kept} is not a copy: it holds the memory of the weights themselves.",
            (
                shown(at, "stores the tensors, not copies of their values."),
                shown(place, "copies each one onto itself, which restores nothing."),
            ),
            f"Store a copy: {at.text.replace(text, f'{text}.clone()', 1)}{edit}."
            if at.text.count(text) == 1 or text not in at.text
            else f"Store a copy: {text}.clone(){edit}.",
            at,
        )


def _container(value: ast.expr) -> str:
    """Return what a value is an item of: `self.saved` of `self.saved[n]`."""
    while isinstance(value, ast.Call | ast.Attribute) and not dotted(value):
        value = value.func if isinstance(value, ast.Call) else value.value
    return dotted(value.value) or "" if isinstance(value, ast.Subscript) else ""


def _of_items(body: Body, value: ast.expr) -> str:
    """Return the container that a loop takes a variable from: `for p, b in zip(model.parameters(), self.saved):`."""
    name = dotted(value)
    for each in statements(body.node):
        if isinstance(each, ast.For) and isinstance(each.target, ast.Tuple) and isinstance(each.iter, ast.Call):
            if callee(each.iter)[1] != "zip" or len(each.iter.args) != len(each.target.elts):
                continue
            for variable, given in zip(each.target.elts, each.iter.args, strict=True):
                if name is not None and dotted(variable) == name:
                    given = given.func.value if _is_view(given) else given  # type: ignore[attr-defined]
                    return dotted(given) or ""
    return ""


def _is_view(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "values"


def _stores(body: Body, kept: str) -> Iterator[tuple[Body, ast.stmt, ast.expr]]:
    """Yield the statements that put tensors into a container as they are."""
    last = ending(kept)
    for each in statements(body.node):
        stores: list[tuple[ast.expr, ast.expr | None]] = []
        for pair in assigned(each):
            match pair:
                case ast.Subscript(value=held), value:
                    stores.append((held, value))
                case held, ast.DictComp(value=value) | ast.ListComp(elt=value):
                    stores.append((held, value))
        match each:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=held, attr="append"), args=[value])):
                stores.append((held, value))
        for held, stored in stores:
            if ending(dotted(held)) == last and stored is not None and _is_itself(stored):
                yield body, each, stored


def _is_itself(value: ast.expr) -> bool:
    """Whether an expression has the memory of a variable: `p`, `p.data`, `p.detach()`."""
    if isinstance(value, ast.Call):
        receiver, method = callee(value)
        return method == "detach" and receiver is not None and _is_itself(receiver)
    if isinstance(value, ast.Attribute) and value.attr == "data":
        value = value.value
    return isinstance(value, ast.Name)
