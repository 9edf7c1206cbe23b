"""Where two values are given in each other's place: `Nets(teacher, student)` where these are `student, teacher`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from backsight.source.body import Body, Place, body_around, callee, calls_in, dotted, functions, keyword, statements
from backsight.source.rewriting import rewritten


@dataclass(frozen=True)
class Swapped:
    """Two values in each other's place.

    place: the statement that gives them; takes: what takes them, in the other order; names: as they are given.
    into: the class or function that takes them; empty where they are taken apart.
    mended: the statement with both in their places; empty where that is too long.
    """

    place: Place
    takes: Place
    names: tuple[str, str]
    into: str
    mended: str


def swapped(file: str) -> Iterator[Swapped]:
    """Yield what a file gives in the wrong order to its own functions and classes, and what it takes apart so."""
    taken = dict(_taken(file))
    returning = {body.node.name: body for body in functions(file) if isinstance(body.node, ast.FunctionDef)}
    for body in functions(file):
        for statement in statements(body.node):
            for call in calls_in(statement):
                names, takes = taken.get(callee(call)[1], ((), None))
                if takes is not None and not any(isinstance(each, ast.Starred) for each in call.args):
                    yield from _wrong(body, statement, call.args, names, takes, callee(call)[1])
            yield from _unpacked(body, statement, returning)


def _wrong(
    body: Body, statement: ast.stmt, given: Sequence[ast.expr], names: Sequence[str], takes: Place, into: str = ""
) -> Iterator[Swapped]:
    """Two expressions that are called as the place of the other is."""
    called = [(dotted(each) or "").rpartition(".")[2] for each in given]
    pairs = list(zip(given, called, names, strict=False))
    for k, (one, name, wanted) in enumerate(pairs):
        for other, its_name, its_wanted in pairs[k + 1 :]:
            if name and name == its_wanted and its_name == wanted and name != its_name:
                new = rewritten(body, statement, {one: body.text(other), other: body.text(one)})
                yield Swapped(body.place(statement), takes, (name, its_name), into, new)


def _unpacked(body: Body, statement: ast.stmt, returning: Mapping[str, Body]) -> Iterator[Swapped]:
    """`teacher, student = make()` of a function that returns `student, teacher`."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Call() as call):
            inner = returning.get(callee(call)[1])
        case _:
            return
    results = [each for each in statements(inner) if isinstance(each, ast.Return)]
    value = results[0].value if len(results) == 1 else None
    if inner is not None and isinstance(value, ast.Tuple) and len(value.elts) == len(targets):
        names = [(dotted(each) or "").rpartition(".")[2] for each in value.elts]
        yield from _wrong(body, statement, targets, names, inner.place(results[0]))


def _taken(file: str) -> Iterator[tuple[str, tuple[tuple[str, ...], Place]]]:
    """What each function, class and named tuple of a file calls what it is given, in order."""
    module = body_around(file, 0)
    methods = {id(each) for cls in _nodes(module) if isinstance(cls, ast.ClassDef) for each in cls.body}
    for node in _nodes(module):
        if module is None:
            return
        if isinstance(node, ast.FunctionDef):
            own = [each.arg for each in node.args.args]
            yield node.name, (tuple(own[1:] if id(node) in methods else own), module.place(node))
        elif isinstance(node, ast.ClassDef):
            makes = next((e for e in node.body if isinstance(e, ast.FunctionDef) and e.name == "__init__"), None)
            fields = [e.target.id for e in node.body if isinstance(e, ast.AnnAssign) and isinstance(e.target, ast.Name)]
            names = [each.arg for each in makes.args.args[1:]] if makes is not None else fields
            yield node.name, (tuple(names), module.place(makes or node))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1:
            name, makes_tuple = dotted(node.targets[0]), callee(node.value)[1] == "namedtuple"
            named = keyword(node.value, "field_names") or next(iter(node.value.args[1:]), None)
            if name and makes_tuple and named is not None:
                yield name, (tuple(_fields(named)), module.place(node))


def _nodes(module: Body | None) -> Iterator[ast.AST]:
    return ast.walk(module.node) if module is not None else iter(())


def _fields(named: ast.expr) -> list[str]:
    """The names of the fields of a named tuple, as one text or a list of them."""
    if isinstance(named, ast.Constant) and isinstance(named.value, str):
        return named.value.replace(",", " ").split()
    every = named.elts if isinstance(named, ast.List | ast.Tuple) else []
    return [each.value for each in every if isinstance(each, ast.Constant) and isinstance(each.value, str)]
