"""Parameters that a loss does not reach, and why: never used, their result is lost, a condition left them out."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from backsight.diagnosis.amending import gone
from backsight.diagnosis.wording import listed, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_name
from backsight.source import Body, Place, backward_roots, calls_of, only, read_at, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import Spot, bound, reads, spots, target_names, uses
from backsight.source.body import body_around, callee, dotted, expressions, statements, statements_of
from backsight.source.edits import OR, Edit, instead, remove
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, entry_of, follow
from backsight.story.memory import is_module, is_tensor
from backsight.story.sections import methods_of
from backsight.tape import modules_in, registered


@dataclass(frozen=True, eq=False)
class Idle:
    """A module none of whose parameters got a gradient, or such a parameter: its path, and the module that owns it.

    Of `experts.1`, which is one of several, the owner is the module that has `experts`.
    """

    path: str
    owner: Any
    attribute: str
    """What the owner calls it: `self.auxiliary`; `self.experts` for one of these."""
    model: Any = None
    """The module in which it has its path."""


@dataclass(frozen=True)
class Reason:
    """Why nothing reaches it: the evidence, the statement that matters, and the fix.

    sometimes: whether only some steps use it, which need not be a mistake: then the fix is the caller's.
    held: whether what the variables hold proves it.
    because: the same in a few words, for a title.
    inside: whether its result never leaves the model, so that DDP can see that it is unused.
    """

    evidence: tuple[Fact, ...]
    place: Place
    fix: str
    sometimes: bool = False
    held: bool = False
    because: str = "no loss is computed from it"
    inside: bool = False


def idle_in(module: Any, path: str) -> Idle:
    """Return what stands at `path` in a module."""
    parts = path.split(".")
    while len(parts) > 1 and (parts[-1].isdigit() or isinstance(follow(module, parts[:-1]), torch.nn.ModuleDict)):
        parts.pop()
    return Idle(path, follow(module, parts[:-1]), f"self.{parts[-1]}", module)


def trainable(module: Any) -> Iterator[str]:
    """The parameters that DDP counts, in its order: those that require grad, each once, module by module."""
    seen: set[int] = set()
    for path, each in modules_in(module):
        for name, parameter in registered(each, "_parameters").items():
            if is_tensor(parameter) and parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                yield f"{path}.{name}" if path else name


def parameter_at(module: object, path: str) -> object:
    """Return the parameter at a path of `trainable`, past whatever the modules override; None if there is none."""
    held = module
    for part in path.split("."):
        held = entry_of(held, part)
    return held


def whole(names: list[str], every: list[str]) -> list[str]:
    """The outermost modules all of whose parameters are in `names`; parameters that stand alone as they are."""
    missing, found = set(names), []
    for name in names:
        parts = name.split(".")
        prefixes = (".".join(parts[:end]) for end in range(1, len(parts)))
        entire = (p for p in prefixes if all(each in missing for each in every if each.startswith(f"{p}.")))
        found.append(next(entire, name))
    return list(dict.fromkeys(found))


def _never_used(idle: list[Idle]) -> Reason | None:
    """No method of the class that owns them uses them."""
    unread = [each for each in idle if not any(reads_of(each))]
    if not unread or len(unread) < len(idle):
        return None
    kind = class_name(type(unread[0].owner))
    of_kind = [each.attribute for each in unread if each.owner is unread[0].owner]
    nodes = ((body, body.node) for body in methods_of(type(unread[0].owner)))
    forward = next((b.place(n) for b, n in nodes if isinstance(n, ast.FunctionDef) and n.name == "forward"), None)
    if forward is None:
        return None
    them = "it" if len(of_kind) == 1 else "them"
    return Reason(
        (shown(forward, f"never uses {listed(of_kind)}, and no other method of {kind} does."),),
        forward,
        f"Use {listed(of_kind)} in forward, {OR}or remove {them} from {kind}{_unmade(unread[0].owner, of_kind)}.",
    )


def _unmade(owner: object, attributes: Sequence[str], reading: Sequence[Place] = ()) -> Edit | str:
    """What removes attributes from the constructor, if nothing in its file does more with them than to make them, and
    nothing but some statements reads them."""
    init = next((body for body in methods_of(type(owner)) if body.name == "__init__"), None)
    if init is None:
        return ""
    names = {each.rpartition(".")[2] for each in attributes}
    using = [
        each
        for _, each in statements_of(init.file)
        if any(isinstance(node, ast.Attribute) and node.attr in names for node in expressions(each))
    ]
    making = [each for each in init.node.body if isinstance(each, ast.Assign) and {*bound(each)} & {*attributes}]
    alone = {each.lineno for each in using} == {*(each.lineno for each in making), *(each.line for each in reading)}
    made = [name for each in making for name in bound(each)]
    return remove([*map(init.place, making)]) if alone and sorted(made) == sorted(attributes) else ""


def reason_for(failure: Failure, idle: list[Idle]) -> Reason | None:
    """Why no loss depends on them, or on the first of them of which that shows."""
    return _never_used(idle) or next((reason for each in idle if (reason := _reason_for(failure, each))), None)


def _reason_for(failure: Failure, idle: Idle) -> Reason | None:
    body, place = next(reads_of(idle), (None, None))
    if body is None or place is None:
        return None
    return (
        _lost_result(failure, idle, place)
        or _lost_entry(failure, idle, body, place)
        or unread(idle)
        or _conditional(idle, body, place)
    )


def _dropped(idle: Idle) -> Reason | None:
    """A method computes something with it, in a variable that nothing reads."""
    every = list(reads_of(idle))
    if len(every) != 1:
        return None
    body, place = every[0]
    names = bound(statement_at(body, *place.position) or ast.Pass())
    read = {use.name for each in spots(body.node) for use in uses(each.node) if not use.binds}
    if not names or names & read or any("." in name for name in names):
        return None
    what = listed(sorted(names))
    return Reason(
        (shown(place, f"computes {what} with {idle.attribute}. Nothing uses {what}."),),
        place,
        f"Use {what} below line {place.line}, {OR}or remove {idle.attribute}{_without(idle, place)}.",
    )


def unread(idle: Idle) -> Reason | None:
    """What is computed with it goes into a variable that nothing reads, where it runs or where that is returned."""
    return _dropped(idle) or _dropped_result(idle)


def _dropped_result(idle: Idle) -> Reason | None:
    """The module around it returns several results, and who calls that one takes the result of it in a variable that
    nothing reads: `p3, p4, p5 = self.levels(x)`."""
    parts = idle.path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        around = idle_in(idle.model, ".".join(parts[:end]))
        every = list(reads_of(around))
        body, statement = read_at(every[0][1]) if len(every) == 1 else (None, None)
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=taken)], value=ast.Call() as call) if (
                body is not None and dotted(call.func) == around.attribute
            ):
                names = [dotted(each) or "" for each in taken]
            case _:
                continue
        read = {use.name for each in spots(body.node) for use in uses(each.node) if not use.binds}
        lost = [k for k in _results_of(idle, around, len(names)) if names[k].isidentifier() and names[k] not in read]
        if lost:
            what = f"result {lost[0] + 1}" if names[lost[0]].startswith("_") else names[lost[0]]
            return Reason(
                (shown(every[0][1], f"takes {what} from {around.attribute}. Nothing uses {what}."),),
                every[0][1],
                f"Use {what} of {around.attribute} below line {every[0][1].line}, {OR}or leave out of the model what "
                f"only computes {what}.",
                inside=True,
            )
    return None


def _results_of(idle: Idle, around: Idle, count: int) -> list[int]:
    """Which of the results that a module returns come of an idle one in it alone: the one at its place in a list of as
    many, or those of its `return` that read it."""
    module, name = follow(around.owner, [around.attribute.rpartition(".")[2]]), idle.path.rpartition(".")[2]
    if name.isdigit() and is_module(beside := follow(idle.owner, [idle.attribute.rpartition(".")[2]])):
        return [int(name)] if len(registered(beside, "_modules")) == count and idle.owner is module else []
    forward = next((body for body in methods_of(type(module)) if body.name == "forward"), None)
    returned = only(each for each in statements(forward.node) if isinstance(each, ast.Return)) if forward else None
    if idle.owner is not module or returned is None or not isinstance(returned.value, ast.Tuple):
        return []
    texts = [ast.unparse(each) for each in returned.value.elts]
    behind = [idle.attribute in ancestors(forward, text, returned.lineno) for text in texts]
    return [k for k, each in enumerate(behind) if each] if len(texts) == count and sum(behind) == 1 else []


def _without(idle: Idle, place: Place) -> str:
    """The edits by which a module is gone that one statement alone runs, with that statement."""
    unmade = _unmade(idle.owner, [idle.attribute], [place])
    return f"{unmade}{gone(place)}" if unmade and gone(place) else ""


def reads_of(idle: Idle) -> Iterator[tuple[Body, Place]]:
    """The statements that use it in the methods of its owner's class, `__init__` apart."""
    return ((body, place) for body in methods_of(type(idle.owner)) for place in _reads(body, idle.attribute))


def _reads(body: Body, attribute: str) -> Iterator[Place]:
    """The statements of a method, `__init__` apart, that use an attribute."""
    if body.name == "__init__":
        return
    for spot in spots(body.node):
        if reads(spot.node, attribute):
            yield body.place(spot.node)


def _lost_result(failure: Failure, idle: Idle, place: Place) -> Reason | None:
    """The loss does not use a result of the model."""
    for level in failure.users:
        statement = level.statement
        if level.body is None or statement is None:
            continue
        losses = [
            (receiver, call.line, ancestors(level.body, receiver, call.line))
            for receiver, call in backward_roots(level.body)
        ]
        unused = sorted(name for name in bound(statement) if not any(name in read for _, _, read in losses))
        if losses and unused and bound(statement) != set(unused) and _takes_result(level, statement):
            loss = losses[0][0]
            return Reason(
                (
                    shown(place, f"uses {idle.attribute}."),
                    shown(level.place, f"takes the result as {listed(unused)}, but {loss} is not computed from it."),
                ),
                level.place,
                f"Use {listed(unused)} in {loss}, {OR}or remove {idle.path} from the model"
                f"{_not_returned(level, idle, place, unused)}.",
            )
    return None


def _not_returned(level: Level, idle: Idle, place: Place, unused: Sequence[str]) -> str:
    """The edits by which a module is gone whose result a model returns with others, and the one that calls the model
    reads no more: `return a, b` becomes `return a`, and `a, b = model(x)` is `a = model(x)`."""
    body, statement, call = level.body, level.statement, getattr(level.statement, "value", None)
    forward, made = read_at(place)
    own = dotted(made.targets[0]) if isinstance(made, ast.Assign) and len(made.targets) == 1 else None
    every = [each for each in statements(forward.node) if isinstance(each, ast.Return)] if forward is not None else []
    returned, name = only(every), only(unused)
    given = returned.value if returned is not None else None
    taken = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if body is None or statement is None or forward is None or returned is None or own is None or name is None:
        return ""
    if not (isinstance(given, ast.Tuple) and isinstance(taken, ast.Tuple) and isinstance(call, ast.Call)):
        return ""
    results, targets = [dotted(each) for each in given.elts], [dotted(each) for each in taken.elts]
    calls = [each for _, _, each in calls_of(body.file) if dotted(each.func) == dotted(call.func)]
    read = {use.name for each in statements(body.node) for use in uses(each) if not use.binds}
    kept = [each for each in statements(forward.node) if each not in (made, returned) and reads(each, own)]
    if None in results or None in targets or len(calls) > 1 or name in read or kept or len(results) != len(targets):
        return ""
    k = results.index(own) if results.count(own) == 1 else -1
    without = _without(idle, place)
    if k < 0 or targets[k] != name or not without:
        return ""
    left = [", ".join(each for at, each in enumerate(names) if at != k and each) for names in (results, targets)]
    changed = f"{left[1]} = {body.text(call)}"
    return f"{without}{instead(forward, returned, f'return {left[0]}')}{instead(body, statement, changed)}"


def _takes_result(level: Level, statement: ast.stmt) -> bool:
    """Whether a statement takes what a module returns, not what a function makes of it: `criterion(model(x), y)`."""
    value = getattr(statement, "value", None)
    return isinstance(value, ast.Call) and is_module(value_of(level, value.func))


def _lost_entry(failure: Failure, idle: Idle, body: Body, place: Place) -> Reason | None:
    """The model returns its result in a dict, under a key that nothing reads."""
    spot = next(each for each in spots(body.node) if each.node.lineno == place.line)
    returned = spot.node.value if isinstance(spot.node, ast.Return) else None
    if not isinstance(returned, ast.Dict):
        return None
    for key, value in zip(returned.keys, returned.values, strict=True):
        uses_it = any(use.name == idle.attribute for use in uses(value))
        if uses_it and isinstance(key, ast.Constant) and type(key.value) is str and not _is_read(failure, key.value):
            return Reason(
                (shown(place, f'returns the result of {idle.attribute} under "{key.value}", and nothing reads it.'),),
                failure.user.place if failure.user else place,
                f'Use the entry "{key.value}" in the loss, {OR}or remove {idle.path} from the model'
                f"{_without_entry(idle, body, spot.node, returned, key)}.",
            )
    return None


def _without_entry(idle: Idle, body: Body, statement: ast.stmt, returned: ast.Dict, key: ast.expr) -> str:
    """The edits by which a module is gone of which one entry of a returned dict is made alone."""
    left = [(k, value) for k, value in zip(returned.keys, returned.values, strict=True) if k is not key]
    unmade = _unmade(idle.owner, [idle.attribute], [body.place(statement)])
    if not unmade or not left or any(k is None or reads(value, idle.attribute) for k, value in left):
        return ""
    entries = ", ".join(f"{body.text(k)}: {body.text(value)}" for k, value in left if k is not None)
    return f"{unmade}{instead(body, statement, rewritten(body, statement, {returned: f'{{{entries}}}'}))}"


def left_idle(failure: Failure, tensors: Sequence[torch.Tensor]) -> Reason | None:
    """Why the forward of a model leaves out all of these parameters, if its text shows that."""
    held = (value for level in failure.users for value in level.variables.values() if is_module(value))
    return reason_for(failure, idle) if (idle := idle_among(held, tensors)) else None


def idle_among(models: Iterable[Any], tensors: Sequence[torch.Tensor]) -> list[Idle]:
    """Return what all of these parameters are, in the first model that has them."""
    missing = {id(each) for each in tensors}
    for module in {id(each): each for each in models}.values():
        every = list(trainable(module))
        names = [each for each in every if id(parameter_at(module, each)) in missing]
        if len(names) == len(missing):
            return [idle_in(module, path) for path in whole(names, every)]
    return []


def _is_read(failure: Failure, key: str) -> bool:
    """Whether the files of the functions that run read an entry by this key, or an attribute of this name."""
    for file in dict.fromkeys(level.frame.f_code.co_filename for level in failure.users):
        module = body_around(file, 0)
        for node in ast.walk(module.node) if module else ():
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == key:
                return True
            if isinstance(node, ast.Attribute) and node.attr == key and dotted(node.value) != "self":
                return True
            got = node.args[:1] if isinstance(node, ast.Call) and callee(node)[1] in ("get", "pop") else []
            if any(isinstance(each, ast.Constant) and each.value == key for each in got):
                return True
    return False


def _conditional(idle: Idle, body: Body, place: Place) -> Reason | None:
    """It runs only under a condition."""
    every = spots(body.node)
    spot = next(each for each in every if each.node.lineno == place.line)
    inner = _picked(spot, every) or spot
    branch = next(iter(inner.around(ast.If)[::-1]), None)
    used = body.place(inner.node)
    branch = branch or _returned_before(spot, every)
    shows: tuple[Fact, ...]
    if branch is not None:
        which = f"whether {idle.attribute} runs." if inner is spot else f"which of {idle.attribute} run."
        shows = shown(body.place(branch), f"decides {which}"), shown(used, "uses it.")
    elif not f"self.{idle.path}".endswith(idle.attribute) and _picks(spot.node, idle.attribute):
        shows = (shown(used, f"uses one of {idle.attribute}, and not the others."),)
    else:
        return None
    return Reason(shows, used, "", sometimes=True, because="it does not run in every step")


def _returned_before(spot: Spot, every: list[Spot]) -> ast.If | None:
    """The condition under which a function has returned before it comes to a statement."""
    earlier = [each for each in every if each.order < spot.order and isinstance(each.node, ast.Return)]
    arms = [around for around, _ in spot.arms]
    conditions = (each.arms[-1][0] for each in earlier if each.arms and [a for a, _ in each.arms[:-1]] == arms)
    return next((each for each in conditions if isinstance(each, ast.If)), None)


def _picked(spot: Spot, every: list[Spot]) -> Spot | None:
    """Of a loop over the modules, the statement under a condition that uses the one at hand."""
    if not isinstance(spot.node, ast.For):
        return None
    own = target_names(spot.node.target)
    inside = (each for each in every if any(around is spot.node for around, _ in each.arms))
    using = (each for each in inside if any(use.name in own and not use.binds for use in uses(each.node)))
    return next((each for each in using if each.around(ast.If)), None)


def _picks(statement: ast.stmt, attribute: str) -> bool:
    """Whether a statement takes one item of the attribute, by an index that is not written out."""
    return any(
        isinstance(node, ast.Subscript) and dotted(node.value) == attribute and not isinstance(node.slice, ast.Constant)
        for node in expressions(statement)
    )
