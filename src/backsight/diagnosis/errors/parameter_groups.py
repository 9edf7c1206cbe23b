"""An optimizer that finds one parameter in two of its groups: how it came there, and how to make the groups without."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from backsight.diagnosis.errors.registry import refusal
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, listed, shown, sure_if
from backsight.findings.evidence import Evidence, Fact
from backsight.naming import search
from backsight.naming.plain import class_dict, is_class, mro
from backsight.naming.roots import is_library, is_user_class
from backsight.snapshot import groups
from backsight.source import Body, Place, function_at, only, statements_of
from backsight.source.bindings import assigned, spots, uses
from backsight.source.body import callee, calls_in, dotted, expressions, is_compound, is_text, statements
from backsight.source.definitions import definitions
from backsight.source.edits import alternatives, change, on_line, put_at, sentence, without_marks, write
from backsight.source.rewriting import rewritten, rewritten_line
from backsight.story.evaluated import value_of
from backsight.story.failure import Level, follow
from backsight.story.files import calls_in_files, user_files
from backsight.story.holders import found_around
from backsight.story.memory import is_module, is_tensor
from backsight.tape import modules_in, parameters_in
from backsight.text import as_code

_MOST = 4


def in_two_groups(found: Refusal, optimizer: torch.optim.Optimizer) -> Finding | None:
    """A parameter stands in the group that is being added and in one before: as such, or by another name."""
    held = (each.variables.get("param_group") for each in reversed(found.below))
    added: list[Any] = next(
        (each["params"] for each in held if type(each) is dict and type(each.get("params")) is list), []
    )
    before = [each["params"] for each in groups(optimizer)]
    twice = [(k, p) for k, group in enumerate(before) for p in group if any(p is each for each in added)]
    if not twice or len({k for k, _ in twice}) > 1:
        return None
    earlier, shared = twice[0][0], [p for _, p in twice]
    paths = [
        list(dict.fromkeys(name.path for name in each if not (name.file and is_library(name.file))))
        for each in search(shared, frames=found.failure.frames).names
    ]
    ties = [
        f"{listed(each[:_MOST])} are one parameter of shape {'×'.join(map(str, p.shape))}."
        for p, each in zip(shared, paths, strict=True)
        if len(each) > 1
    ]
    called = [each[0] for each in paths if each]
    what = listed([*map(as_code, called)], 3) if len(called) == len(shared) else counted(len(shared), "parameter")
    are, whole = "is" if len(shared) == 1 else "are", _whole(found, shared)
    what = f"the parameters of {whole}" if whole else what
    left = {earlier: len(before[earlier]) - len(twice), len(before): len(added) - len(twice)}
    out_of = max(left, key=lambda k: left[k])
    lists = _lists(found.level)
    names = [_called(lists, group) for group in (before[earlier], added)]
    fills = {name: place for name in names if (place := _filled(found.level, name)) is not None}
    leaving = names[1] if out_of == len(before) else names[0]
    written = _written(found.level, leaving, next((each for each in names if each != leaving), ""))
    shown_there, held_by = list[Fact](), {earlier: before[earlier], len(before): added}
    if not fills:
        shown_there, written = _displayed(found, held_by, out_of, written, by_name=not ties)
    tying = list(tied(found)) if ties else []
    rest = ((name, _once(found.level, name, each)) for name, each in lists.items() if name not in names)
    also = "".join(f" {name} holds a parameter twice: {once}." for name, once in rest if once)
    if not _on_lines_of_their_own(f"{written}{also}"):
        written, also = without_marks(written), without_marks(also)
    return refusal(
        found,
        f"{sentence(what) if whole else what} {are} in two parameter groups: {earlier} and {len(before)}.",
        (
            *(shown(place, f"puts it into {name}.") for name, place in fills.items()),
            *shown_there,
            shown(found.level.place, "failed."),
            *(shown(each, "makes them one parameter.", sure_if(len(tying) == 1)) for each in tying[:_MOST]),
            *ties[:3],
            *_by_property(found, shared),
        ),
        f"Leave {what} out of group {out_of}, which keeps {counted(left[out_of], 'other parameter')}"
        f"{f': {written}' if written else ''}.{also}"
        if left[out_of]
        else f"Leave out group {len(before)}: group {earlier} has all of its parameters.",
        fills.get(leaving),
        exact=not any(isinstance(each, Evidence) and each.certainty == "read" for each in shown_there),
    )


def tied(found: Refusal) -> Iterator[Place]:
    """The statements that give a module the weight of another, `a.weight = b.weight`, or the same by setattr."""
    for body, each in statements_of(*user_files(found.failure)):
        given = [value for target, value in assigned(each) if getattr(target, "attr", "") == "weight"]
        given += [
            call.args[2]
            for call in calls_in(each)
            if callee(call)[1] == "setattr" and len(call.args) == 3 and is_text(call.args[1], "weight")
        ]
        if any(isinstance(value, ast.Attribute) and value.attr == "weight" for value in given):
            yield body.place(each)


def _displayed(
    found: Refusal, held: Mapping[int, Sequence[object]], out_of: int, written: str, *, by_name: bool
) -> tuple[list[Fact], str]:
    """Where two groups of the program's only written list of groups are filled, and how one leaves out the other's."""
    every = [
        (body, statement, [_params(each) for each in node.elts])
        for body, statement in statements_of(*user_files(found.failure))
        for node in expressions(statement)
        if isinstance(node, ast.List) and len(node.elts) > 1 and all(isinstance(each, ast.Dict) for each in node.elts)
    ]
    body, statement, values = every[0] if len(every) == 1 else (None, None, [])
    first, second = held
    both = [value for k in held if k < len(values) and (value := values[k]) is not None]
    if body is None or statement is None or len(both) < 2:
        return [], written
    if all(isinstance(each, ast.Call) and callee(each)[1] == "parameters" for each in both):
        ends = (body.place(each, body.lines[each.lineno - 1].strip()) for each in both)
        pairs = [(k, at) for k, at in zip((first, second), ends, strict=True) if at.line != found.level.line]
        whole, part = (both[1], both[0]) if out_of == second else (both[0], both[1])
        here = next((each for each in found.failure.users if each.body and each.body.node is body.node), found.level)
        modules = [value_of(here, callee(each)[0]) for each in both if isinstance(each, ast.Call)]
        own = [[*map(id, parameters_in(each))] if is_module(each) else [] for each in modules]
        sure = own == [[*map(id, each)] for each in held.values()]
        seen: list[Fact] = [shown(at, f"fills group {k}.", sure_if(sure)) for k, at in pairs]
        return seen, _apart(body, statement, whole, part, by_name=by_name)
    if not all(isinstance(each, ast.Name) for each in both):
        return [], written
    names = {k: dotted(values[k]) or "" for k in (first, second)}
    above = [each for each in spots(body.node) if each.node.lineno < statement.lineno]
    filling = {k: [each for each in above if any(definitions(each, name))][-1:] for k, name in names.items()}
    lines: list[Fact] = [
        shown(body.place(each.node), f"fills group {k}.", "read") for k, at in filling.items() for each in at
    ]
    leaving, other = names[out_of], names[first if out_of == second else second]
    kept = _without(leaving, other)
    return lines, put_at(f"{leaving} = {kept}", "above", body.place(statement)) if kept else written


def _apart(body: Body, statement: ast.stmt, kept: ast.expr, other: ast.expr, *, by_name: bool) -> str:
    """How a group of all parameters of a module leaves out those of a part of it."""
    (whole, _), (part, _) = callee(kept), callee(other)  # type: ignore[arg-type]  # as the caller has seen
    path, inner = dotted(whole), dotted(part)
    new = f"[p for p in {body.text(kept)} if all(p is not each for each in {body.text(other)})]"
    if by_name and path and inner and inner.startswith(f"{path}."):
        prefix = f"{inner.removeprefix(f'{path}.')}."
        new = f'[p for name, p in {path}.named_parameters() if not name.startswith("{prefix}")]'
    if kept.lineno == statement.lineno == statement.end_lineno:
        at, used = body.place(statement), {use.name for each in statements(body.node) for use in uses(each)}
        if whole_line := rewritten(body, statement, {kept: new}):
            return on_line(at, whole_line)
        line = rewritten(body, statement, {kept: "others"})
        return f"{put_at(f'others = {new}', 'above', at)}, and {on_line(at, line)}" if "others" not in used else ""
    line, at = rewritten_line(body, kept, new), body.place(kept, body.lines[kept.lineno - 1].strip())
    return f"on line {at.line}, write `{line}`{change(at, at.text, line)}" if line else ""


def _whole(found: Refusal, parameters: Sequence[torch.Tensor]) -> str:
    """The module of which these are all parameters; empty for one alone, whose name says more."""
    wanted = [id(each) for each in parameters]
    known = found_around(found.failure.frames, torch.nn.Module) if len(wanted) > 1 else ()
    inside = ((f"{path}.{at}".rstrip("."), one) for module, path in known for at, one in modules_in(module))
    return next((as_code(path) for path, each in inside if [id(one) for one in parameters_in(each)] == wanted), "")


def _params(group: ast.expr) -> ast.expr | None:
    keys = group.keys if isinstance(group, ast.Dict) else []
    return next((v for k, v in zip(keys, getattr(group, "values", []), strict=True) if is_text(k, "params")), None)


def _lists(level: Level) -> dict[str, list[torch.Tensor]]:
    """The variables of a function that hold lists of tensors."""
    held = ((name, value) for name, value in level.variables.items() if type(value) is list and value)
    return {name: value for name, value in held if all(map(is_tensor, value))}


def _called(lists: Mapping[str, Sequence[object]], group: Sequence[object]) -> str:
    """The variable whose list has become a group; empty if there is none."""
    same = [id(each) for each in group]
    return next((name for name, held in lists.items() if [id(each) for each in held] == same), "")


def _filled(level: Level, name: str) -> Place | None:
    """The one statement that puts something into a list."""
    every = spots(level.body) if name else ()
    found = (each for each in every if any(not known.replaces for known in definitions(each, name)))
    place = only(found)
    return level.body.place(place.node) if place is not None and level.body is not None else None


def _written(level: Level, leaving: str, other: str) -> str:
    """The statement that makes a group of a list, which leaves out what another list has; empty where none shows."""
    new = _without(leaving, other)
    if level.body is None or not new:
        return ""
    filled = [
        each.node.lineno for each in spots(level.body.node) for name in (leaving, other) if any(definitions(each, name))
    ]
    made = [each for each in statements(level.body.node) if max(filled, default=0) < each.lineno <= level.line]
    found = ((level.body.place(each), _with(level, each, leaving, new)) for each in reversed(made))
    return next((on_line(place, text) for place, text in found if text), "")


def _without(leaving: str, other: str) -> str:
    """A list without what another one holds; empty where one of them has no name, or that of an element here."""
    is_clear = leaving and other and "p" not in (leaving, other)
    return f"[p for p in {leaving} if all(p is not each for each in {other})]" if is_clear else ""


def _once(level: Level, name: str, held: Sequence[object]) -> str:
    """The next statement that reads a list which holds a parameter twice, with each of them once."""
    twice = len({id(each) for each in held}) < len(held)
    body = level.body
    later = [each for each in statements(body) if each.lineno >= level.line] if twice else []
    found = ((each, _with(level, each, name, f"list(dict.fromkeys({name}))")) for each in later)
    return next((on_line(body.place(each), new) for each, new in found if body and new), "")


def _on_lines_of_their_own(text: str) -> bool:
    """Whether what a text asks for is all on different lines."""
    lines = [line for edits in alternatives(text) for each in edits for line in each.lines]
    return len(lines) == len(set(lines))


def _with(level: Level, statement: ast.stmt | None, name: str, new: str) -> str:
    """A statement with something in place of a variable; empty where it does not read that."""
    nodes = [each for each in expressions(statement) if new and dotted(each) == name]
    if level.body is None or statement is None or not nodes:
        return ""
    return rewritten(level.body, statement, dict.fromkeys(nodes, new))


def _by_property(found: Refusal, parameters: Sequence[torch.Tensor]) -> Iterator[Fact]:
    """The properties of the program's modules that give such a parameter of another module, read and never run."""
    for module, path in found_around(found.failure.frames, torch.nn.Module):
        for attribute, place, value in _given(module):
            if any(value is each for each in parameters):
                yield shown(place, f"gives the same parameter as {as_code(path)}.{attribute}.")


def _given(module: object) -> Iterator[tuple[str, Place, object]]:
    """The properties of a module of the program that return what is an attribute of another: its name, where, what."""
    for base in mro(type(module)):
        held: Mapping[str, Any] = class_dict(base) if is_user_class(class_dict(base).get("__module__")) else {}
        for name, value in held.items():
            code = getattr(value.fget, "__code__", None) if type(value) is property else None
            body = function_at(code) if code is not None else None
            for each in statements(body):
                owner, *path = (dotted(each.value) or "").split(".") if isinstance(each, ast.Return) else [""]
                if owner == "self" and path and body is not None:
                    yield name, body.place(each), follow(module, path)


# An optimizer is given parameters with their names and others without: which statement gives the pairs.


_MIXED = "should be with/without names"
_WHOLE = frozenset({"list", "tuple", "chain", "extend", "add_param_group"})
"""The calls that take a list of parameters as it is, besides that of the optimizer."""


class _Given(NamedTuple):
    """A statement that passes on all that `named_parameters()` or `parameters()` of a module gives."""

    body: Body
    statement: ast.stmt
    changes: dict[ast.expr, str]
    modules: list[ast.expr]

    @property
    def place(self) -> Place:
        return self.body.place(self.statement)

    @property
    def without_names(self) -> str:
        return rewritten(self.body, self.statement, self.changes)


def names_mixed(found: Refusal) -> Finding | None:
    """Say which statement gives the parameters with their names, and write it without; None for another error."""
    inside = found.below[-1].variables if found.below else {}
    names, tensors = inside.get("extracted_param_names"), inside.get("extracted_param_tensors")
    if _MIXED not in found.failure.message or not isinstance(names, list) or not isinstance(tensors, list):
        return None
    pairs, plain = list(_passing(found, "named_parameters")), list(_passing(found, "parameters"))
    every = [call for _, _, call in calls_in_files(found.failure) if callee(call)[1] == "named_parameters"]
    sure = bool(pairs) and len(every) == sum(len(each.modules) for each in pairs)  # nothing else asks for names
    how = ", [p for _, p in model.named_parameters()]"
    if sure and all(each.without_names for each in pairs):
        written = [f"`{each.without_names}` on line {each.place.line}" for each in pairs]
        how = f": write {listed(written, 4)}{''.join(str(write(each.place, each.without_names)) for each in pairs)}"
    what = "Some groups have parameters with names, others without."
    if names and len(names) < len(tensors):
        total = counted(len(tensors), "parameter")
        what = f"{len(names)} of the {total} of one group come with a name, the others without."
    return refusal(
        found,
        f"An optimizer takes all parameters with names or all without. {what}",
        (
            *(shown(each.place, "gives pairs of a name and a parameter.", sure_if(sure)) for each in pairs[:3]),
            *(shown(each.place, "gives parameters without names.", sure_if(sure)) for each in plain[:3]),
            shown(found.level.place, "failed."),
        ),
        f"Give it the parameters alone{how}.",
        pairs[0].place if len(pairs) == 1 else None,
        exact=sure,
    )


def _passing(found: Refusal, method: str) -> Iterator[_Given]:
    """The statements that pass the parameters of a module on as this method gives them."""
    for body, statement in statements_of(*user_files(found.failure)):
        if is_compound(statement):
            continue
        roots = [each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.expr)]
        taken = [each for root in roots for each in _taken(found, root, method)]
        if taken:
            changes = {node: _plain(body, node, module) for node, module in taken}
            yield _Given(body, statement, changes, [module for _, module in taken])


def _taken(found: Refusal, node: ast.AST, method: str) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The calls of the method that end up, as they are, in the list that an expression makes; each with the module."""
    match node:
        case ast.Call(func=ast.Attribute(value=module, attr=name)) if name == method:
            yield node, module
        case ast.ListComp(ast.Tuple(elts=[ast.Name(), ast.Name()]) as pair, [ast.comprehension(iter=inside)]):
            if method == "named_parameters" and isinstance(inside, ast.Call) and callee(inside)[1] == method:
                yield pair, inside.func.value  # type: ignore[attr-defined]
        case ast.Call() if callee(node)[1] in _WHOLE or _is_optimizer(found.level, node.func):
            for each in (*node.args, *(one.value for one in node.keywords)):
                yield from _taken(found, each, method)
        case ast.List() | ast.Tuple() | ast.Starred() | ast.BinOp(op=ast.Add()):
            for inner in ast.iter_child_nodes(node):
                yield from _taken(found, inner, method)
        case ast.Dict():
            for each in node.values:
                yield from _taken(found, each, method)


def _plain(body: Body, node: ast.expr, module: ast.expr) -> str:
    """The same without names: of a pair, the parameter."""
    return body.text(node.elts[1]) if isinstance(node, ast.Tuple) else f"{body.text(module)}.parameters()"


def _is_optimizer(level: Level, node: ast.expr) -> bool:
    held = value_of(level, node)
    return is_class(held) and issubclass(held, torch.optim.Optimizer)
