"""The input comes from a property or a function that makes a new tensor each time, as it did for the output."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from backsight.diagnosis.errors.gradient_call import gradient_call
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.unused_input.case import Unused
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.naming.plain import class_dict, mro, namespace
from backsight.naming.roots import is_library
from backsight.source import Body, Place, assignments, function_at, only, statement_at
from backsight.source.bindings import bound, uses
from backsight.source.body import calls_in, dotted, expressions, functions, statements
from backsight.source.definitions import values_of
from backsight.source.edits import change, importing, lines_of
from backsight.story.evaluated import Variables, value_of
from backsight.story.failure import Failure, Level
from backsight.story.files import user_files
from backsight.story.sections import Section, function_called, passed, sections, undecorated
from backsight.text import lines_at


@dataclass(frozen=True, eq=False)
class Maker:
    """A function of the user's that computes what it returns, and the object that it is a method or a property of.

    given: what the call gives it.
    """

    function: Any
    owner: object
    given: tuple[object, ...]
    body: Body
    returns: ast.stmt
    value: ast.expr
    is_property: bool


def made_anew(case: Unused) -> Finding | None:
    """Name the property or function, and the other place that reads it."""
    found = _written(case) if len(case.tensors) == 1 else None
    maker = _maker(*found[:2]) if found is not None else None
    if found is None or maker is None or found[0].body is None:
        return None
    level, node, asking = found
    other = next(_read_elsewhere(case, maker, level, node), None)
    if other is None:
        return None
    text, makes, at = ast.unparse(node), maker.body.place(maker.returns), level.place
    does, again = ("reads" if maker.is_property else "calls", "asks for the gradient with respect to the new tensor.")
    return explanation(
        f"{case.output} is not computed from this {text}: each {text} is a new tensor.",
        (
            shown(makes, "makes a new tensor each time."),
            shown(other.place, f"{does} it once, to compute {case.output}."),
            None if at == asking else shown(asking, f"{does} it again: a new tensor."),
            shown(at, f"{does} it again, and {again}" if at == asking else again),
        ),
        _kept(case.failure, maker) or other.once(text, asking, does[:-1].capitalize()),
        source=makes,
    )


@dataclass(frozen=True, eq=False)
class Other:
    """Where the output has the tensor from, and the function there, if that is not the one that asks."""

    place: Place
    function: str

    def once(self, text: str, asking: Place, what: str) -> str:
        """How the program has it once: `what` it does with the property or function, reads or calls."""
        line = self.place.line
        where = f"and in {self.function}(), on line {line}"
        if not self.function:
            return f"{what} {text} once, above line {line}, and use that one tensor on lines {line} and {asking.line}."
        return f"{what} {text} once, and use that one tensor in both places: on line {asking.line}, {where}."


def _written(case: Unused) -> tuple[Level, ast.expr, Place] | None:
    """What the program writes for the input, `pts.t`, behind parameters and variables; the level and the statement."""
    node: ast.expr | None = None
    for number, level in enumerate(case.failure.users):
        if level.body is None:
            return None
        if number == 0:
            call = gradient_call(level)
            node = call.inputs if call is not None else None
            if isinstance(node, ast.Tuple | ast.List):
                same = (each for each in node.elts if value_of(level, each) is case.tensors[0])
                node = node.elts[0] if len(node.elts) == 1 else next(same, None)
        place = level.place
        if isinstance(node, ast.Name):
            values = values_of(level.body, node.id, level.line)
            made = assignments(level.body, node.id, before=level.line)
            node, place = (values[0], made[-1]) if len(values) == len(made) == 1 else (node, place)
        if not isinstance(node, ast.Name):
            return (level, node, place) if node is not None else None
        node = _given(case.failure, number + 1, level, node.id)
    return None


def _given(failure: Failure, outer: int, inner: Level, name: str) -> ast.expr | None:
    """What the next level out passes for a parameter of the inner one."""
    level = failure.users[outer] if outer < len(failure.users) else None
    for call in calls_in(level.statement) if level is not None else ():
        function, owner = function_called(level, call) if level is not None else (None, None)
        function = undecorated(function)
        if getattr(function, "__code__", None) is inner.frame.f_code:
            return passed(function, owner, call).get(name)
    return None


def _maker(of: Variables, node: ast.expr) -> Maker | None:
    """The function that an expression runs, if that computes what it returns and keeps nothing."""
    function, owner, given, is_property = (None, None, tuple[object, ...](), isinstance(node, ast.Attribute))
    if isinstance(node, ast.Attribute):
        owner = value_of(of, node.value)
        every = (class_dict(base).get(node.attr) for base in mro(type(owner)))
        found = next((each for each in every if each is not None), None)
        function = found.fget if type(found) is property else None
    elif isinstance(node, ast.Call):
        function, owner = function_called(of, node)
        given = tuple(value_of(of, each) for each in (*node.args, *(each.value for each in node.keywords)))
        if any(each is None for each in given) or (owner is None and not given):
            return None
    code = getattr(function, "__code__", None)
    body = function_at(code) if code is not None and not is_library(code.co_filename) else None
    returns = [each for each in statements(body) if isinstance(each, ast.Return)]
    value = returns[0].value if len(returns) == 1 else None
    if body is not None and isinstance(value, ast.Name):
        values = values_of(body, value.id, returns[0].lineno)
        value = only(values)
    if body is None or value is None or dotted(value) is not None:
        return None
    return Maker(function, owner, given, body, returns[0], value, is_property)


def _read_elsewhere(case: Unused, maker: Maker, level: Level, node: ast.expr) -> Iterator[Other]:
    """The other statements on the way to the output that run the same function of the same object."""
    for section in sections(case.failure):
        for line in section.lines():
            statement = statement_at(section.body, line)
            here = level.body is not None and section.body.node is level.body.node
            for each in expressions(statement):
                if (here and each is node) or type(each) is not type(node) or statement is None:
                    continue
                if _runs(section, each, maker) and section.body.place(statement) != level.place:
                    yield Other(section.body.place(statement), "" if here else section.body.name)


def _runs(section: Section, node: ast.expr, maker: Maker) -> bool:
    if maker.is_property and isinstance(node, ast.Attribute) and node.attr != maker.function.__name__:
        return False
    found = _maker(section, node)
    if found is None or found.function is not maker.function or found.owner is not maker.owner:
        return False
    pairs = zip(found.given, maker.given, strict=False)
    same = (one is other or (type(one) in _PLAIN and type(one) is type(other) and one == other) for one, other in pairs)
    return len(found.given) == len(maker.given) and all(same)


_PLAIN = (bool, int, float, str)


def _kept(failure: Failure, maker: Maker) -> str:
    """How the properties of an object keep what they take of an attribute that is set once; empty for any other."""
    base = _part_of(maker.value)
    if not maker.is_property or base is None or _is_set_again(failure, base):
        return ""
    kind = type(maker.owner)
    if namespace(maker.owner) is None or any("__slots__" in class_dict(each) for each in mro(kind)[:-1]):
        return ""
    lines = sorted(each for cls in mro(kind) for each in _lines_of(cls, base, maker.body.file))
    cached = change(lines_of(maker.body.file, *lines), "@property", "@functools.cached_property")
    return (
        f"Keep what is made first: write `@functools.cached_property` instead of `@property` on {lines_at(lines)}"
        f"{cached}{_import(maker.body.file)}."
    )


def _part_of(value: ast.expr) -> str | None:
    """The attribute of which an expression is a part, and no more: `data` of `self.data[:, :1]`."""
    name = dotted(value.value) if isinstance(value, ast.Subscript) else None
    first, _, attribute = (name or "").partition(".")
    return attribute if first == "self" and attribute and "." not in attribute else None


def _is_set_again(failure: Failure, attribute: str) -> bool:
    """Whether any function but a constructor sets an attribute of this name."""
    return any(
        name.rpartition(".")[2] == attribute and "." in name
        for file in user_files(failure)
        for body in functions(file)
        if body.name not in ("__init__", "__post_init__")
        for each in statements(body.node)
        for name in bound(each)
    )


def _lines_of(cls: type, base: str, file: str) -> Iterator[int]:
    """The lines of `@property` above the properties of a class that are parts of the same attribute."""
    for held in class_dict(cls).values():
        code = getattr(held.fget, "__code__", None) if type(held) is property else None
        body = function_at(code) if code is not None else None
        for each in statements(body.node) if body is not None and body.file == file else ():
            if isinstance(each, ast.Return) and each.value is not None and _part_of(each.value) == base:
                decorators = getattr(body and body.node, "decorator_list", ())
                yield from (one.lineno for one in decorators if dotted(one) == "property")


def _import(file: str) -> str:
    """That the module of `cached_property` has to be imported, where it is not."""
    module = next(iter(functions(file)), None)
    names = {use.name for each in statements(module.node) for use in uses(each) if use.binds} if module else set()
    return "" if "functools" in names else f", and `import functools`{importing(file, 'import functools')}"
