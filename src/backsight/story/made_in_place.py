"""Where the program makes a module that works in place, `nn.ReLU(inplace=True)`, and how it makes one that does not."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch

from backsight.naming.plain import class_name
from backsight.source import Body, Place
from backsight.source.bindings import assigned, bound, parameters_of
from backsight.source.body import callee, calls_in, dotted, functions, is_constant, keyword, last_name, statements
from backsight.source.edits import Edit, change, lines_of
from backsight.source.out_of_place import arguments
from backsight.story.failure import Failure
from backsight.story.files import user_files
from backsight.story.memory import is_module
from backsight.story.sections import methods_of
from backsight.tape import registered
from backsight.text import listed

_MOST = 3
"""Statements that are named where it is not known which of them made a module: that all of them change does no harm."""


class Made(NamedTuple):
    """A call that makes a module, or whatever will make it: `partial(nn.ReLU, inplace=True)`."""

    body: Body
    statement: ast.stmt
    call: ast.Call

    @property
    def place(self) -> Place:
        return self.body.place(self.call)


def made_in_place(failure: Failure, kind: str, owner: object, attribute: str) -> list[Made]:
    """Return what makes a module of this class with `inplace=True`: an attribute of its owner, or one in a sequence.

    Of several none can be told from the others; none where none can have made it.
    """
    values = [*_values(owner, attribute)]
    own = [
        Made(body, each, call)
        for body, each, value in values
        for call in ast.walk(value)
        if isinstance(call, ast.Call) and _flag(call) is not None
    ]
    found = [each for file in user_files(failure) for each in _every(file) if _kind(each.call) == kind]
    placed = [each for each in found if _is_placed(each, owner, attribute)]
    linked = [each for each in found if not values or any(_is_linked(each, *at) for at in values)]
    return own or placed or (linked if len(linked) <= _MOST else [])


def made_otherwise(
    failure: Failure, held: Mapping[str, object], first: tuple[str, str], others: Iterable[tuple[str, str]] = ()
) -> str:
    """Say where a module is made, and which others are to be made without `inplace=True` as well, with the edits.

    held: the modules by their paths; each of those that are asked for is a class and a path.
    """
    every = {path: _made(failure, held, kind, path) for kind, path in (first, *others)}
    own = every.pop(first[1])
    also = [f"{path}{'' if {*made} <= {*own} else said_of(made)}" for path, made in every.items()]
    more = f" The same applies to {listed([*also[:_MOST], *['others'] * (len(also) > _MOST)])}." if also else ""
    known = own and all(every.values())
    edits = not_in_place(dict.fromkeys(each for made in (own, *every.values()) for each in made)) if known else ""
    return f"{said_of(own)}.{more}{edits}"


def _made(failure: Failure, held: Mapping[str, object], kind: str, path: str) -> list[Made]:
    owner, _, attribute = path.rpartition(".")
    return made_in_place(failure, kind, held.get(owner), attribute)


def said_of(made: Sequence[Made]) -> str:
    """Say where modules are made, and how: ": at train.py:9, write `nn.ReLU()`"; empty where it is not known."""
    places = [each.place for each in made]
    if len(places) == 1:
        return f": at {places[0]}, write `{_alone(made[0].body, made[0].call)}`"
    return f": {listed([*map(str, dict.fromkeys(places))])}" if places else ""


def not_in_place(made: Iterable[Made]) -> str:
    """The edits by which modules are made that leave their inputs alone, one for each line."""
    changed: dict[tuple[str, int], dict[tuple[int, int], str]] = {}
    bodies = dict[str, Body]()
    for body, _, call in made:
        flag, bodies[body.file] = _flag(call), body
        if flag is None:
            continue
        node, new = (call, _alone(body, call)) if call.lineno == call.end_lineno else (flag, "False")
        span = (node.col_offset, node.end_col_offset or 0)
        changed.setdefault((body.file, node.lineno), {})[span] = new
    return "".join(str(_rewritten(bodies[file], line, spans)) for (file, line), spans in changed.items())


def _rewritten(body: Body, line: int, spans: dict[tuple[int, int], str]) -> Edit:
    old = body.lines[line - 1]
    data = old.encode("utf-8", "replace")  # columns of the syntax tree count bytes
    for (first, last), new in sorted(spans.items(), reverse=True):
        data = data[:first] + new.encode() + data[last:]
    return change(lines_of(body.file, line), old.strip(), data.decode("utf-8", "replace").strip())


def _alone(body: Body, call: ast.Call) -> str:
    """A call without what tells a module to work in place."""
    given = [*call.args]
    while given and keyword(call, "inplace") is None and is_constant(given[-1], True):
        given.pop()
    without = ast.Call(call.func, given, call.keywords)
    return f"{body.text(call.func)}({', '.join(arguments(body, without, but='inplace'))})"


def _flag(call: ast.Call) -> ast.expr | None:
    """What tells a module to work in place."""
    given = (keyword(call, "inplace"), *call.args)
    return next((each for each in given if is_constant(each, True)), None)


def _kind(call: ast.Call) -> str:
    """The class that a call makes a module of, or `partial(nn.ReLU, …)` will."""
    name = callee(call)[1]
    return last_name(call.args[0]) if name == "partial" and call.args else name


def _every(file: str) -> Iterator[Made]:
    """The calls of a file that say so, with those of class bodies, and of the defaults of functions."""
    for body in functions(file):
        for each in statements(body.node):
            for inner in (each, *(each.body if isinstance(each, ast.ClassDef) else ())):
                yield from (Made(body, inner, call) for call in calls_in(inner) if _flag(call) is not None)


def _values(owner: object, attribute: str) -> Iterator[tuple[Body, ast.stmt, ast.expr]]:
    """What a class gives an attribute, as its methods say."""
    for body in methods_of(type(owner)):
        for each in statements(body.node):
            for target, value in assigned(each):
                if attribute and dotted(target) == f"self.{attribute}":
                    yield body, each, value


def _is_linked(made: Made, body: Body, _: ast.stmt, value: ast.expr) -> bool:
    """Whether a value is what a call has made: by the name of it, or of the function that makes it; or it is given."""
    nodes = [*ast.walk(value)]
    words = {each.id for each in nodes if isinstance(each, ast.Name)}
    words |= {each.attr for each in nodes if isinstance(each, ast.Attribute)}
    names = {*bound(made.statement), made.body.name}
    if isinstance(made.statement, ast.FunctionDef):
        names |= {*parameters_of(made.statement)}
    given = {*parameters_of(body.node)} - {"self"}
    return bool(names & words or given & words)


def _is_placed(made: Made, owner: object, attribute: str) -> bool:
    """Whether a call stands in a sequence where the module has its place, among modules of the same classes."""
    children = (
        [*registered(owner, "_modules").values()]
        if is_module(owner) and issubclass(type(owner), torch.nn.Sequential)
        else []
    )
    if not attribute.isdecimal() or int(attribute) >= len(children):
        return False
    for call in calls_in(made.statement):
        if len(call.args) == len(children) and call.args[int(attribute)] is made.call:
            kinds = (_kind(each) if isinstance(each, ast.Call) else "" for each in call.args)
            return all(not kind or kind == class_name(type(child)) for kind, child in zip(kinds, children, strict=True))
    return False
