"""What a function reads of objects that the functions around it change between its first run and its second."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.evidence.unsteady import Unsteady
from backsight.naming.plain import class_dict, mro, namespace
from backsight.source import Body, Place
from backsight.source.bindings import are_alternatives, bound, targets
from backsight.source.body import callee, calls_in, covers, dotted, expressions, statements
from backsight.source.definitions import FILLING
from backsight.source.edits import move
from backsight.story.evaluated import value_of
from backsight.story.failure import is_users
from backsight.story.memory import is_module
from backsight.story.sections import Section, function_called, run_by

_PLAIN = (bool, int, float, str, tuple, torch.Size, torch.dtype, type(None))
_CONTAINERS = (dict, list, set, deque)
_EMPTYING = frozenset({"clear", "pop", "popitem", "popleft", "remove", "discard"})
_DEEPEST = 3
_LONGEST = 30


class _Read(NamedTuple):
    """An expression that reads a plain attribute of an object, `self.window.size`, or a container, without one."""

    section: Section
    statement: ast.stmt
    node: ast.expr
    holder: object
    attribute: str
    value: object = None


class _Change(NamedTuple):
    """The expression that is changed, in its statement, and the statement around the first run that leads to it."""

    section: Section
    statement: ast.stmt
    node: ast.expr
    outer: ast.stmt


def changed_meanwhile(run: Sequence[Section], callers: Iterable[Section]) -> Iterator[Unsteady]:
    """Yield what the function reads that is changed for sure after its first run: below the call of checkpoint, or in
    a function that is called again before backward."""
    inside = {section.body.node for section in run}
    around = list(_around([each for each in callers if each.body.node not in inside]))
    for read in (each for section in run for each in _reads(section)):
        for section, calls in around:
            for change in _changes(section, read, inside):
                below = _is_below(section, change.outer, calls)
                if below or _runs_again(section):
                    yield _told(read, change, section if below else None)


def _told(read: _Read, change: _Change, below: Section | None) -> Unsteady:
    place, line = read.section.body.place(read.statement), change.statement.lineno
    there = change.section.body.place(change.statement)
    text, value = read.section.body.text(read.node), read.value
    if read.attribute or value is not None:
        spoken = repr(value) if _says_itself(value) else ""
        now = f": it is {spoken} in the second" if 0 < len(spoken) <= _LONGEST else ""
        return Unsteady(
            place,
            f"reads {text}, which line {line} changes between the two runs{now}.",
            f"Pass {text} to checkpoint as an argument: both runs get the same arguments.",
            also=((there, "changes it."),),
            read=text,
        )
    name = change.section.body.text(change.node)
    node = below.body.node if below is not None else None
    fix = f"Change {name} only after backward(), or before the first run."
    own = below.own - {"self"} if below is not None else frozenset[str]()
    if below and isinstance(node, ast.FunctionDef) and change.statement in node.body and name.split(".")[0] not in own:
        start = below.body.place(node.body[0])
        fix = f"Change it before the first run: move line {line} above line {start.line}{move(there, 'above', start)}."
    return Unsteady(
        place,
        f"reads what {name} holds, which line {line} changes between the two runs.",
        fix,
        also=((there, "changes it."),),
    )


def _says_itself(value: object) -> bool:
    """Whether the text of a value is Python's own: a tuple asks what it holds, which may be the program's."""
    inside = value if type(value) is tuple else (value,)
    return all(type(each) in (bool, int, float, str, torch.Size, torch.dtype) for each in inside)


def _reads(section: Section) -> Iterator[_Read]:
    for statement in statements(section.body.node):
        for node in expressions(statement):
            path, _, attribute = (dotted(node) or "").rpartition(".")
            holder = section.value(path) if path else None
            if path and isinstance(getattr(node, "ctx", None), ast.Load) and _is_plain(section, path, attribute):
                yield _Read(section, statement, node, holder, attribute, section.value(f"{path}.{attribute}"))
            for each in _looked_into(node):
                held = value_of(section, each)
                if issubclass(type(held), _CONTAINERS):
                    item = value_of(section, node) if isinstance(node, ast.Subscript) else None
                    is_plain = item is not None and type(item) in _PLAIN
                    yield _Read(section, statement, node if is_plain else each, held, "", item if is_plain else None)


def _is_plain(section: Section, path: str, attribute: str) -> bool:
    holder = section.value(path)
    own = namespace(holder) or {}
    there = attribute in own or any(attribute in class_dict(each) for each in mro(type(holder)))
    value = section.value(f"{path}.{attribute}")
    return there and is_users(type(holder)) and type(value) in _PLAIN and attribute != "training"


def _looked_into(node: ast.expr) -> Iterator[ast.expr]:
    """The containers that an expression reads from: `cache[key]`, `key in cache`, `cache.get(key)`."""
    match node:
        case ast.Subscript(value=held, ctx=ast.Load()):
            yield held
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[held]):
            yield held
        case ast.Call(func=ast.Attribute(value=held, attr="get" | "items" | "values" | "keys")):
            yield held


def _around(callers: Sequence[Section]) -> Iterator[tuple[Section, list[ast.Call]]]:
    """The functions from the call of checkpoint outwards, each with the calls in it that lead there."""
    for section in callers:
        every = [call for each in statements(section.body.node) for call in calls_in(each)]
        calls = [call for call in every if callee(call)[1].startswith("checkpoint")]
        inner = section
        while calls:
            yield inner, calls
            if inner.caller is None or inner.call is None:
                break
            calls, inner = _alike(inner.caller, inner.call), inner.caller


def _alike(section: Section, call: ast.Call) -> list[ast.Call]:
    every = (other for each in statements(section.body.node) for other in calls_in(each))
    return [each for each in every if ast.dump(each.func) == ast.dump(call.func)]


def _changes(section: Section, read: _Read, inside: Collection[ast.AST], depth: int = 0) -> Iterator[_Change]:
    """The statements of a function that change what is read, or call what does."""
    for statement in statements(section.body.node):
        for node in _changed_by(statement, bool(read.attribute)):
            path = dotted(node) or ""
            if not read.attribute and value_of(section, node) is read.holder:
                yield _Change(section, statement, node, statement)
            alike = bool(read.attribute) and path.rpartition(".")[2] == read.attribute
            if alike and _stands_for(section, path.rpartition(".")[0], read.holder):
                yield _Change(section, statement, node, statement)
        for call in calls_in(statement) if depth < _DEEPEST else ():
            function, owner = function_called(section, call)
            called = next(run_by(function, owner), None) if function is not None and not is_module(owner) else None
            if called is not None and called.body.node not in inside:
                inner = _changes(called, read, {*inside, called.body.node}, depth + 1)
                yield from (each._replace(outer=statement) for each in inner)


def _changed_by(statement: ast.stmt, attributes: bool) -> Iterator[ast.expr]:
    """What a statement sets, `window.size = 3`, or the containers that it fills or empties."""
    if attributes:
        yield from (each for each, _, _ in targets(statement) if isinstance(each, ast.Attribute))
        return
    items = [each for each, _, _ in targets(statement)] + getattr(statement, "targets", [])
    yield from (each.value for each in items if isinstance(each, ast.Subscript))
    for call in calls_in(statement):
        receiver, name = callee(call)
        if receiver is not None and name in FILLING | _EMPTYING:
            yield receiver


def _stands_for(section: Section, path: str, holder: object) -> bool:
    """Whether a path leads to an object, or is the variable of a loop that goes through modules which have it."""
    value = section.value(path)
    if value is not None or "." in path:
        return value is holder
    loops = (each for each in statements(section.body.node) if isinstance(each, ast.For) and path in bound(each))
    held = (section.value(dotted(node) or "") for each in loops for node in expressions(each))
    return any(is_module(each) and _has(each, holder) for each in held)


def _has(module: torch.nn.Module, holder: object) -> bool:
    every: list[object] = [module]
    for each in every:  # grows as we go
        inside = (namespace(each) or {}).get("_modules")
        every += [child for child in inside.values() if child is not None] if type(inside) is dict else []
    return any(each is holder for each in every)


def _is_below(section: Section, change: ast.stmt, calls: Sequence[ast.Call]) -> bool:
    """Whether a statement runs after the first of these calls, and before what failed."""
    body, last = section.body, section.level.line if section.level is not None else 0
    for call in calls:
        if any(not covers(each, last) for each in _loops(body, call.lineno) if covers(each, change.lineno)):
            return True
        apart = are_alternatives(body, body.place(change), Place(body.file, call.lineno, "", call.col_offset))
        if (call.end_lineno or 0) < change.lineno and not apart and (not last or change.lineno < last):
            return True
    return False


def _runs_again(section: Section) -> bool:
    """Whether a function is called again before what failed, as far as its callers are known."""
    inner = section
    while inner.caller is not None and inner.call is not None:
        caller, call = inner.caller, inner.call
        last = caller.level.line if caller.level is not None else 0
        if len(_alike(caller, call)) > 1 or any(not covers(each, last) for each in _loops(caller.body, call.lineno)):
            return True
        inner = caller
    return False


def _loops(body: Body, line: int) -> list[ast.For | ast.While]:
    every = (each for each in statements(body.node) if isinstance(each, ast.For | ast.While))
    return [each for each in every if covers(each, line) and each.lineno < line]
