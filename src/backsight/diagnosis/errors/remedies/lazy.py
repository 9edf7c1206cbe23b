"""Remedies for lazy modules: their parameters have no shape until a forward pass has run them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, anew, remedy
from backsight.diagnosis.evidence.idle import Idle, Reason, idle_in, reads_of, reason_for, trainable, whole
from backsight.diagnosis.evidence.refused import Refusal, read_by
from backsight.diagnosis.wording import a_kind, listed, shown
from backsight.naming.plain import class_name
from backsight.source import only
from backsight.source.bindings import bound, names_read
from backsight.source.body import callee, dotted, expressions, statements
from backsight.source.edits import OR, marks_of, put_at
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level, entry_of, is_users
from backsight.story.files import calls_in_files
from backsight.story.holders import found_around
from backsight.story.memory import is_module, is_tensor
from backsight.story.sections import methods_of
from backsight.tape import modules_in, registered
from backsight.text import as_code

_MOST = 3


@remedy(r"[Uu]ninitialized (?:parameter|buffer)|trying to use .*Uninitialized")
def _without_shape(found: Refusal, match: Match) -> Remedy | None:
    """What is refused has parameters without a shape: no forward has run yet, or none ever comes to them."""
    model, path = _model(found)
    every = [name for name, _ in _lazy(model)]
    held = {each: idle_in(model, each) for each in whole(every, [*trainable(model), *every])}
    unused = [each for each in held.values() if is_users(type(each.owner)) and not any(reads_of(each))]
    reasons = _never_run(found, unused)
    ran = _have_run(unused)
    left = [each for each, idle in held.items() if idle not in unused or not reasons]
    lines = {
        body.place(each): f"creates {a_kind(callee(call)[1])}: its first forward gives it shapes."
        for body, each, call in calls_in_files(found.failure)
        if callee(call)[1].startswith("Lazy") and hasattr(torch.nn, callee(call)[1])
        if not reasons or left or {*bound(each)} & {idle.attribute for idle in unused}
    }
    told = [shown(place, says) for place, says in [*lines.items()][:_MOST]]
    evidence = (*told, *(fact for each in reasons for fact in each.evidence), *ran)
    own = [path] if issubclass(type(model), LazyModuleMixin) else [f"{path}.{each}".lstrip(".") for each in held]
    says = f"{listed([*map(as_code, own)], 4)} {'has' if len(own) == 1 else 'have'} no shape"
    says = says if every else "A lazy module's parameters have no shape"
    apart = [*{(type(each.owner), each.attribute): each for each in unused}.values()]
    of = listed([f"{each.attribute} from {class_name(type(each.owner))}" for each in apart])
    removed = f"emove {of}{''.join(marks_of(each.fix) for each in reasons)}"
    if not left and reasons:
        fix = reasons[0].fix if len(reasons) == 1 else f"R{removed}, {OR}or use them in forward."
        return Remedy(f"{says}, and no forward will give {'it' if len(own) == 1 else 'them'} one. {fix}", evidence)
    if reasons:
        return Remedy(f"{says} yet: {_run_before(found, model)}; and r{removed}, which no forward runs.", evidence)
    level = _level(found)
    return Remedy(f"{says} yet: {_run_before(found, model)}{_skipping(level)}.", evidence)


def _level(found: Refusal) -> Level:
    """The innermost function that is no part of an expression."""
    every = (each for each in found.failure.users if not each.function.endswith(("expr>", "comp>")))
    return next(every, found.level)


def _model(found: Refusal) -> tuple[object, str]:
    """The largest module that has parameters without a shape, with its name: of those that the failing line reads, if
    one of them has."""
    read = {id(value) for level in found.failure.users for _, value in read_by(level, level.statement)}
    every = [
        (module, path, len(lazy))
        for module, path in found_around(found.failure.frames, torch.nn.Module)
        if (lazy := list(_lazy(module)))
    ]
    known = [each for each in every if id(each[0]) in read] or every
    module, path, _ = max(known, key=lambda each: each[2], default=(None, "", 0))
    return module, path


def _lazy(module: object) -> Iterator[tuple[str, torch.Tensor]]:
    """The parameters of a module that have no shape, by path."""
    for path, each in modules_in(module) if is_module(module) else ():
        for name, parameter in registered(each, "_parameters").items():
            if is_tensor(parameter) and torch.nn.parameter.is_lazy(parameter):
                yield f"{path}.{name}" if path else name, parameter


def _never_run(found: Refusal, unused: Sequence[Idle]) -> list[Reason]:
    """Why no forward comes to what is not used, one for each class that has it; none unless that is known of all."""
    kinds: dict[type, list[Idle]] = {}
    for each in unused:
        kinds.setdefault(type(each.owner), []).append(each)
    firsts = [[each for each in every if each.owner is every[0].owner] for every in kinds.values()]
    reasons = [reason_for(found.failure, each) for each in firsts]
    return [each for each in reasons if each is not None] if all(reasons) else []


def _have_run(unused: Sequence[Idle]) -> list[str]:
    """What was made lazy beside something, and has its shapes: a forward has run."""
    for idle in unused:
        init = next((body for body in methods_of(type(idle.owner)) if body.name == "__init__"), None)
        made = [
            name
            for each in (statements(init.node) if init is not None else ())
            for name in bound(each)
            if isinstance(value := getattr(each, "value", None), ast.Call) and callee(value)[1].startswith("Lazy")
        ]
        known = [(name, entry_of(idle.owner, name.removeprefix("self."))) for name in made]
        done = [name for name, each in known if is_module(each) and not any(_lazy(each))]
        if done:
            kind = class_name(type(idle.owner))
            has = "has its shape" if len(done) == 1 else "have their shapes"
            return [f"A forward of {kind} has run: {listed(done, 4)} {has}."]
    return []


def _run_before(found: Refusal, model: object) -> str:
    """Say where a forward is to run: as the program runs it further down, where its inputs exist by then."""
    for level in found.failure.users:
        names = {*level.variables, *level.frame.f_globals}
        calls = [
            at.text(call)
            for at, each, call in calls_in_files(found.failure)
            if level.body is not None and at.node is level.body.node and each.lineno > level.line and call.args
            if _has(level.variables.get(dotted(call.func) or ""), model)
            if {name.partition(".")[0] for name in names_read(call)} <= names
        ]
        text = only(dict.fromkeys(calls))
        if text is not None and "…" not in text:
            code = f"with torch.no_grad(): {text}"
            return f"call the forward once before that: {put_at(code, 'above', level.place)}"
    before = f"before line {_level(found).line}, call the forward once"
    return f"{before} on a batch like those of the training, inside `with torch.no_grad():`"


def _has(value: object, model: object) -> bool:
    """Whether a value is a module that is, or has, another."""
    return is_module(value) and any(each is model for _, each in modules_in(value))


def _skipping(level: Level) -> str:
    """The statement that counts, without what has no shape yet."""
    body, statement = level.body, level.statement
    for node in expressions(statement) if body is not None and statement is not None else ():
        loop = node.generators[-1] if isinstance(node, ast.GeneratorExp | ast.ListComp) else None
        calls = (each for each in ast.walk(node) if isinstance(each, ast.Call))
        counted = {dotted(callee(each)[0]) for each in calls if callee(each)[1] in ("numel", "nelement")}
        name = dotted(loop.target) if loop is not None else None
        if loop is None or name is None or name not in counted or body is None or statement is None:
            continue
        test = f"not torch.nn.parameter.is_lazy({name})"
        last = loop.ifs[-1] if loop.ifs else loop.iter
        text = body.text(last)
        new = f"{test} and {text}" if loop.ifs else f"{text} if {test}"
        line = rewritten(body, statement, {last: new})
        if line:
            edit = anew(body, statement, line)
            return f". {OR}Or leave them out of the count: on line {level.line}, write `{line}`{edit}"
    return ""
