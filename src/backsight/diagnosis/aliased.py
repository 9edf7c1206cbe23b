"""What is kept is no copy, but the memory of what is trained.

BS148: of a model's state, of an optimizer's, a gradient's, of what parameters are compared with. BS144: of an average.
"""

from __future__ import annotations

import ast
import re
import weakref
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import unwrap
from itertools import islice
from types import FrameType
from typing import Any, TypeGuard

import torch

from backsight.diagnosis.amending import instead, written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import bodies, conditions_around, ending, files_around, filling, modules, named
from backsight.diagnosis.wording import if_known, shown, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Place, only, read_at
from backsight.source.bindings import assigned
from backsight.source.body import Body, callee, calls_in, dotted, expressions, functions, statements
from backsight.story.failure import method
from backsight.tape import parameters_in
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
    trained, held = _memory(optimizers), set[str]()
    for each, name in search((), collect=(dict,), where=_holds_tensor).found:
        if isinstance(each, dict) and any(is_plain(v) and v.data_ptr() in trained for v in each.copy().values()):
            held.add(ending(name.path))
    return [_finding(each, since) for each in states if ending(each.name) in held]


def _memory(optimizers: Iterable[torch.optim.Optimizer]) -> set[int]:
    """Return where the parameters of optimizers are in memory."""
    return {p.data_ptr() for each in optimizers for p in parameters(each) if is_plain(p)}


def _holds_tensor(held: Any) -> bool:
    values = dict.values(held) if isinstance(held, dict) else list.__iter__(held)
    return any(isinstance(value, torch.Tensor) for value in islice(values, _LOOKED_AT))


def _containers(
    names: Container[str], optimizers: Iterable[torch.optim.Optimizer]
) -> Iterator[tuple[object, str, set[int]]]:
    """Yield the dicts and lists of these last names whose values all have the memory of what optimizers train."""
    trained = _memory(optimizers)
    for held, name in search((), collect=(dict, list), where=_holds_tensor).found:
        every = held.values() if isinstance(held, dict) else held
        values = [*every] if ending(name.path) in names else []  # type: ignore[misc]  # a list
        memory = {each.data_ptr() for each in values if is_plain(each)}
        if values and all(map(is_plain, values)) and memory <= trained:
            yield held, name.path, memory


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
        if gradient is None or type(entries) is not dict or not is_plain(gradient):
            continue
        for key, value in entries.items():
            if is_plain(value) and value.data_ptr() == gradient.data_ptr() and value.shape == gradient.shape:
                yield SharedState(ref, key, gradient.data_ptr())


def told_shared(shared: SharedState, optimizer: torch.optim.Optimizer, since: int) -> Finding:
    """Return the finding of such an entry, which the program's zero_grad() and backward() change."""
    name = named(optimizer)
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


# BS148: what parameters are compared with has their own memory, so that the difference is always zero.


_OF_MODULES = frozenset({"named_parameters", "parameters", "state_dict"})
_COMPARES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "dist", "sub"})


@dataclass(frozen=True)
class Difference:
    """A statement that compares each parameter of a model with an entry of a container; both by their last names."""

    container: str
    model: str
    place: Place


def differences(frame: FrameType | None) -> list[Difference]:
    """Return such statements in the program's files from which a step is called: most have none."""
    return [each for body in bodies(frame) for each in _differences(body)]


def own_anchor(
    found: Sequence[Difference], optimizers: Iterable[torch.optim.Optimizer], since: int, frame: FrameType | None
) -> list[Finding]:
    """Return the finding of a container that has the memory of the very parameters that are compared with it."""
    for held, name, memory in _containers({each.container for each in found}, optimizers):
        last = ending(name)
        fitting = (each for each in found if each.container == last)
        own = next((each for each in fitting if _are_of(each.model, held, last, memory)), None)
        if own is not None:
            return [_of_anchor(name, own, filling(frame, last), since)]
    return []


def is_plain(value: object) -> TypeGuard[torch.Tensor]:
    """Whether a value is a tensor of PyTorch's own classes that has memory, which may be looked at."""
    if not isinstance(value, torch.Tensor) or type(value) not in (torch.Tensor, torch.nn.Parameter):
        return False
    return value.layout == torch.strided and is_readable(value) and value.numel() > 0


def _are_of(model: str, held: object, container: str, memory: set[int]) -> bool:
    """Whether memory is that of the parameters of every module that goes by a name."""
    every = modules()
    if model == "self":
        called = [each for each in every if (namespace(each) or {}).get(container) is held]
    else:
        named = zip(every, search(every, limit=8).names, strict=True)
        called = [each for each, names in named if any(ending(name.path) == model for name in names)]
    return bool(called) and all(memory <= {p.data_ptr() for p in parameters_in(each)} for each in called)


def _differences(body: Body) -> Iterator[Difference]:
    for statement in statements(body.node):
        comprehensions = [
            (node.generators[0].target, node.generators[0].iter, node.elt)
            for node in expressions(statement)
            if isinstance(node, ast.GeneratorExp | ast.ListComp) and len(node.generators) == 1
        ]
        loops = [(statement.target, statement.iter, statement)] if isinstance(statement, ast.For) else []
        for target, over, inside in (*loops, *comprehensions):
            kept, trained = _variables(target, over)
            for node in ast.walk(inside) if trained else ():
                for one, other in _compared(node):
                    if (model := trained.get(dotted(one) or "")) and (container := _held_by(other, kept)):
                        place = _place(body, statement, node)
                        yield Difference(ending(container), ending(model), place)


def _place(body: Body, loop: ast.stmt, node: ast.AST) -> Place:
    """Return the innermost statement that holds an expression of a loop."""
    line = getattr(node, "lineno", loop.lineno)
    around = [s for s in statements(body.node) if s.lineno <= line <= (s.end_lineno or 0)]
    return body.place(max(around, key=lambda each: each.lineno, default=loop))


def _compared(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the two sides of a difference, and each the other way."""
    match node:
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            yield from ((left, right), (right, left))
        case ast.Call(args=[first, second, *_]) if callee(node)[1] in _COMPARES:
            yield from ((first, second), (second, first))


def _held_by(value: ast.expr, kept: dict[str, str]) -> str | None:
    """Return the container of which an expression is an entry: `self.anchors` of `self.anchors[name]`."""
    return dotted(value.value) if isinstance(value, ast.Subscript) else kept.get(dotted(value) or "")


def _variables(target: ast.expr, over: ast.expr) -> tuple[dict[str, str], dict[str, str]]:
    """Return which variables of a loop are entries of which container, and which are parameters of which module."""
    pairs = [(target, over)]
    if isinstance(over, ast.Call) and callee(over)[1] == "zip" and isinstance(target, ast.Tuple):
        pairs = list(zip(target.elts, over.args, strict=False))
    kept: dict[str, str] = {}
    trained: dict[str, str] = {}
    for each, source in pairs:
        calls = [node for node in ast.walk(source) if isinstance(node, ast.Call)]
        of_module = next((call for call in calls if callee(call)[1] in _OF_MODULES), None)
        is_view = isinstance(source, ast.Call) and {callee(call)[1] for call in calls} <= {"values", "items"}
        held = callee(source)[0] if is_view and isinstance(source, ast.Call) else source
        if of_module is not None:
            trained |= dict.fromkeys(_names(each), dotted(callee(of_module)[0]) or "a module")
        elif (name := dotted(held)) is not None:
            kept |= dict.fromkeys(_names(each), name)
    return kept, trained


def _cloned(made: Place | None) -> str:
    """Return the statement that fills a container, with copies of what it takes from the parameters."""
    copied = made.text if made is not None else ""
    for old, new in ((".detach()", ".detach().clone()"), (".data ", ".detach().clone() ")):
        copied = copied.replace(old, new) if ".clone()" not in copied else copied
    return copied


def _of_anchor(name: str, found: Difference, made: Place | None, since: int) -> Finding:
    copied = _cloned(made)
    return warning(
        "BS148",
        f"{name} is not a copy: it has the memory of the parameters that are compared with it.",
        (
            if_known(made, "keeps the memory of the parameters: no value is copied."),
            shown(found.place, "compares each parameter with itself: the difference is always zero."),
        ),
        f"Copy the values: {copied}{written(made, copied)}."
        if made is not None and copied != made.text
        else "Copy the values, with .clone().",
        made or found.place,
        since=since,
    )


# BS144: an average of the weights.


_ADDS = frozenset({"lerp_", "add_", "copy_"})


def own_average(optimizers: Iterable[torch.optim.Optimizer], since: int, frame: FrameType | None) -> list[Finding]:
    """Return the finding of a container whose tensors are to follow the parameters, and have their memory.

    Much may keep the memory of parameters. So a statement has to write the parameters into what the container holds,
    which is to write each into itself.
    """
    averaged = {name: place for body in bodies(frame) for name, place in _averaged(body)}
    for _, name, _ in _containers(averaged, optimizers) if averaged else ():
        return [_finding_of_average(name, filling(frame, ending(name)), averaged[ending(name)], since)]
    return []


def _averaged(body: Body) -> Iterator[tuple[str, Place]]:
    """Yield the containers into whose entries a loop writes the parameters of a module, by their last names."""
    for loop in (each for each in statements(body.node) if isinstance(each, ast.For)):
        kept, trained = _variables(loop.target, loop.iter)
        for statement in (each for each in ast.walk(loop) if isinstance(each, ast.Expr)):
            call = statement.value
            if not isinstance(call, ast.Call) or callee(call)[1] not in _ADDS or not call.args:
                continue
            if callee(call)[1] == "copy_" and not isinstance(call.args[0], ast.BinOp):
                continue  # of copies alone, nothing tells that they are to lag behind
            root = callee(call)[0]
            while isinstance(root, ast.Call):
                root = callee(root)[0]
            held = dotted(root.value) if isinstance(root, ast.Subscript) else kept.get(dotted(root) or "")
            if held is not None and _names(call.args[0]) & trained.keys() and "grad" not in _names(call.args[0]):
                yield ending(held), body.place(statement)


def _names(node: ast.expr) -> frozenset[str]:
    """Return the variables and attributes that an expression reads."""
    own = (each.id if isinstance(each, ast.Name) else getattr(each, "attr", None) for each in ast.walk(node))
    return frozenset(each for each in own if each is not None)


def _finding_of_average(name: str, made: Place | None, averaged: Place, since: int) -> Finding:
    copied = _cloned(made)
    return warning(
        "BS144",
        f"{name} is no average of the weights: its tensors are the weights themselves.",
        (
            if_known(made, "keeps the memory of the parameters: no value is copied."),
            shown(averaged, "writes each parameter into itself."),
        ),
        "Copy the values when you create it"
        + (f": {copied}{written(made, copied)}." if made and copied != made.text else ", with .clone()."),
        made or averaged,
        since=since,
    )
