"""What made a value that was to be a tensor something else: a number, None, a tuple; read from the source text."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Literal

import torch

from backsight.diagnosis.wording import counted
from backsight.source import Place
from backsight.source.bindings import targets
from backsight.source.body import callee, calls_in, dotted, expressions, keyword, statements
from backsight.source.definitions import FILLING, Definition, flow_of, reaching
from backsight.source.imports import library
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.memory import is_tensor, needs_gradient
from backsight.story.scenes import called_function
from backsight.story.sections import Section, methods_of, section_of

Kind = Literal["number", "none", "tuple", "other"]
Part = int | str | None
"""Which part of a value is wanted: an index, a key; None for the whole."""

_METHODS = {
    "item": "turns {} into a Python number",
    "tolist": "turns {} into Python numbers",
    "numpy": "turns {} into a NumPy array",
}
_FUNCTIONS = frozenset({"float", "int", "round", "bool"})
_REDUCING = frozenset({"sum", "max", "min", "abs", "mean", "fmean"})
_RETURN_NONE = FILLING | {"backward", "zero_grad", "print", "step", "manual_backward", "sort", "reverse", "clear"}
_OUTSIDE = ("numpy", "math", "statistics")
_DEEP = 6


@dataclass(frozen=True, eq=False)
class Conversion:
    """The statement that made something else of a tensor.

    does: what it does there, as a clause. call: that expression; operand: what it was made of, where the text shows it.
    definition: the statement through which the failing function has the value.
    function: the function of the user's that returns it, where another one does.
    returns_none: whether that function is the place, and returns nothing.
    sure: whether the value can have come from nowhere else.
    """

    place: Place
    does: str
    section: Section
    call: ast.expr | None = None
    operand: ast.expr | None = None
    definition: Definition | None = None
    function: str = ""
    returns_none: bool = False
    sure: bool = True


def conversion(failure: Failure, level: Level, value: ast.expr, kind: Kind) -> Conversion | None:
    """Return what made `value`, an expression of the failing statement, a thing of this kind; None if nothing shows."""
    section = section_of(level)
    search = _Search(failure, kind)
    return search.of_value(section, value, level.statement, level.line, _DEEP) if section and level.statement else None


def conversion_in(failure: Failure, function: Section, kind: Kind) -> Conversion | None:
    """Return what made a result of the user's function, which PyTorch called, a thing of this kind; None likewise."""
    return _Search(failure, kind).of_function(function, None, _DEEP)


@dataclass(frozen=True, eq=False)
class _Search:
    failure: Failure
    kind: Kind

    def of_value(
        self, section: Section, value: ast.expr, statement: ast.stmt, line: int, depth: int, position: Part = None
    ) -> Conversion | None:
        """Follow an expression to what converts it: through operators, names, and functions of the user's."""
        if depth <= 0 or is_tensor(value_of(section, value)):
            return None
        place = section.body.place(statement)
        if (found := self._itself(section, value, place, position)) is not None:
            return found
        if (name := dotted(value)) is not None:
            return self._of_name(section, name, line, depth, position)
        if isinstance(value, ast.Call) and (inner := called_function(section, value)) is not None:
            return self.of_function(inner, value, depth, position)
        if isinstance(value, ast.Subscript):
            key = value.slice.value if isinstance(value.slice, ast.Constant) else None
            part = key if type(key) in (int, str) and position is None else None
            return self.of_value(section, value.value, statement, line, depth, part)  # type: ignore[arg-type]
        inside = _part(value, position) if position is not None else None
        if inside is not None:
            return self.of_value(section, inside, statement, line, depth)
        if self.kind != "number" and not isinstance(value, ast.IfExp):
            return None
        parts = (self.of_value(section, each, statement, line, depth, position) for each in _parts(value))
        return next((found for found in parts if found is not None), None)

    def _itself(self, section: Section, value: ast.expr, place: Place, position: Part) -> Conversion | None:
        """Whether the expression is the conversion: `loss.item()`, `float(loss)`, `(loss, accuracy)`."""
        if self.kind == "tuple" and isinstance(value, ast.Tuple | ast.List | ast.Dict) and position is None:
            return Conversion(place, _makes(value), section, value)
        if not isinstance(value, ast.Call):
            is_none = isinstance(value, ast.Constant) and value.value is None
            return Conversion(place, "sets it to None", section, value) if self.kind == "none" and is_none else None
        receiver, name = callee(value)
        if self.kind == "none" and name in _RETURN_NONE and called_function(section, value) is None:
            return Conversion(place, f"calls {name}(), which returns None", section, value, receiver)
        if self.kind in ("number", "other") and receiver is not None and name in _METHODS and not value.args:
            return Conversion(place, _METHODS[name].format(section.body.text(receiver)), section, value, receiver)
        if self.kind == "number" and receiver is None and name in _FUNCTIONS and len(value.args) == 1:
            inner = value.args[0]
            if isinstance(inner, ast.Call) and callee(inner)[1] in _METHODS:
                return None  # what is inside has converted it before
            return Conversion(place, f"turns {section.body.text(inner)} into a {name}", section, value, inner)
        if receiver is not None and value.args and self.kind in ("number", "other"):
            library = section.value(dotted(receiver) or "")
            outside = library.__name__ if type(library) is ModuleType else ""
            if outside in _OUTSIDE and not (name in _REDUCING and _is_gathered(section, value.args[0])):
                return Conversion(place, f"computes with {outside}, outside PyTorch", section, value)
        return None

    def _of_name(self, section: Section, name: str, line: int, depth: int, part: Part = None) -> Conversion | None:
        flow = flow_of(section.body.node)
        use, _ = flow.read_at(section.body, name, line)
        found, complete = reaching(flow, name, use) if use else ([], False)
        wanted = [each for each in found if each.values and not _is_start(each, self.kind)]
        for definition in wanted:
            node = definition.spot.node
            for value in definition.values:
                if dotted(value) == name:  # of `total += ...`, which is followed through the other statements
                    continue
                if part is not None and not definition.replaces:  # of `losses["total"] = ...`, the same key
                    if _key(node) not in (part, None):
                        continue
                    made = self.of_value(section, value, node, node.lineno, depth - 1)
                else:
                    wanted_part = definition.position if part is None else part
                    made = self.of_value(section, value, node, node.lineno, depth - 1, wanted_part)
                if made is not None:
                    sure = made.sure and complete and len(wanted) == 1
                    return replace(made, sure=sure, definition=made.definition or definition)
        if section.level is not None and not complete:
            return self._handed(section.level, name, depth) or self._of_attribute(section, name, depth)
        return None

    def _handed(self, level: Level, name: str, depth: int) -> Conversion | None:
        """What the caller gives for a parameter."""
        code, users = level.frame.f_code, self.failure.users
        at = next((k for k, each in enumerate(users) if each.frame is level.frame), -1)
        outer = users[at + 1] if 0 <= at < len(users) - 1 else None
        section = section_of(outer) if outer else None
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if outer is None or section is None or outer.statement is None or name not in parameters:
            return None
        for node in expressions(outer.statement):
            if isinstance(node, ast.Call) and callee(node)[1] == code.co_name:
                shift = 1 if isinstance(node.func, ast.Attribute) and parameters[0] == "self" else 0
                given = dict(zip(parameters[shift:], node.args, strict=False))
                given |= {each.arg: each.value for each in node.keywords if each.arg}
                if name in given:
                    return self.of_value(section, given[name], outer.statement, outer.line, depth - 1)
        return None

    def _of_attribute(self, section: Section, name: str, depth: int) -> Conversion | None:
        """What a method of the same object assigned to `self.loss`."""
        owner, _, attribute = name.rpartition(".")
        held = section.value(owner) if owner else None
        if held is None or "." in owner:
            return None
        for body in methods_of(type(held)):
            if body.node is section.body.node:
                continue
            for each in statements(body.node):
                for target, value, position in targets(each):
                    if dotted(target) == f"self.{attribute}":
                        inner = Section(body, (), {"self": held}, section.globals)
                        found = self.of_value(inner, value, each, each.lineno, depth - 1, position)
                        if found is not None:
                            return replace(found, sure=False)
        return None

    def of_function(
        self, inner: Section, call: ast.Call | None, depth: int, position: Part = None
    ) -> Conversion | None:
        """What a function of the user's returns; `call` is where the text shows who calls it."""
        node = inner.body.node
        name = getattr(node, "name", "")
        every = [each for each in statements(node) if isinstance(each, ast.Return)]
        given = [each for each in every if each.value is not None]
        if any(isinstance(each, ast.Yield | ast.YieldFrom) for s in statements(node) for each in expressions(s)):
            return None
        for each in given:
            assert each.value is not None  # as `given` has it
            made = self.of_value(inner, each.value, each, each.lineno, depth - 1, position)
            if made is not None:
                return replace(made, function=made.function or name, sure=made.sure and len(every) == 1)
        if self.kind == "none" and position is None and not (given and _ends(node.body)):
            what = "returns nothing" if not given else "ends without a return on some paths"
            assert isinstance(node, ast.stmt)  # a function, as it was called
            return Conversion(inner.body.place(node), what, inner, call, function=name, returns_none=True)
        return None


def _parts(value: ast.expr) -> Iterator[ast.expr]:
    """The operands that make a number of an expression if they are numbers."""
    match value:
        case ast.BinOp(left=left, right=right):
            yield from (left, right)
        case ast.UnaryOp(operand=operand):
            yield operand
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            yield from elements
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
            yield element
        case ast.Dict(values=values):
            yield from values
        case ast.Call():
            receiver, name = callee(value)
            if (receiver is None and name in _REDUCING | _FUNCTIONS) or (
                value.args and name in _REDUCING and (isinstance(receiver, ast.Name) or library(value.func))
            ):
                yield from value.args
            elif receiver is not None:
                yield receiver
        case ast.Attribute(value=inner):
            yield inner


def _part(value: ast.expr, position: int | str) -> ast.expr | None:
    """The element or entry of a display: `loss` of `(loss, accuracy)`, and of `{"loss": loss}`."""
    match value:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) if type(position) is int:
            return elements[position] if -len(elements) <= position < len(elements) else None
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return next((v for k, v in pairs if isinstance(k, ast.Constant) and k.value == position), None)
    return None


def _key(statement: ast.stmt) -> object:
    """The key of `losses["total"] = ...`; None where it is no constant."""
    match statement:
        case ast.Assign(targets=[ast.Subscript(slice=ast.Constant(value=key))]):
            return key
        case ast.AugAssign(target=ast.Subscript(slice=ast.Constant(value=key))):
            return key
    return None


def _makes(value: ast.Tuple | ast.List | ast.Dict) -> str:
    kind = type(value).__name__.lower()
    number = len(value.values if isinstance(value, ast.Dict) else value.elts)
    return f"makes a {kind} of {counted(number, 'value')}"


def _is_gathered(section: Section, value: ast.expr) -> bool:
    """Whether an expression is a list of values, whose elements are of interest."""
    return isinstance(value, ast.ListComp | ast.List | ast.GeneratorExp) or type(value_of(section, value)) is list


def _is_start(definition: Definition, kind: Kind) -> bool:
    """Whether a statement only gives what a sum starts from: `total = 0`, `losses = []`."""
    if kind == "none":
        return False
    return all(
        isinstance(each, ast.Constant | ast.List | ast.Dict) and not getattr(each, "elts", getattr(each, "values", ()))
        for each in definition.values
    )


def _ends(block: Sequence[ast.stmt]) -> bool:
    """Whether a block ends with a return or raise on every path."""
    last = block[-1] if block else None
    match last:
        case ast.Return() | ast.Raise():
            return True
        case ast.If(body=body, orelse=orelse):
            return _ends(body) and _ends(orelse)
        case ast.With(body=body):
            return _ends(body)
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
            return _ends(final) or (_ends(orelse or body) and all(_ends(each.body) for each in handlers))
        case ast.While(test=ast.Constant(value=True)):
            return True
        case ast.Match(cases=cases):
            return all(_ends(each.body) for each in cases)
    return False


def gradients_in(value: Any) -> list[tuple[object, torch.Tensor]]:
    """The tensors that require grad in a tuple, list, dict or object, each with its index, key or attribute."""
    kind = type(value)
    if issubclass(kind, tuple):
        every: list[tuple[object, object]] = list(enumerate(tuple.__iter__(value)))
    elif issubclass(kind, list):
        every = list(enumerate(list.__iter__(value)))
    elif issubclass(kind, dict):
        every = [(key, dict.__getitem__(value, key)) for key in dict.keys(value) if type(key) in (str, int)]
    else:
        every = []
    return [(key, each) for key, each in every if is_tensor(each) and needs_gradient(each)]


def closure_given(failure: Failure) -> tuple[Level, ast.Call] | None:
    """Return the call that a closure stands for, and the level that gives it to the step; None if that did not fail.

    The optimizer itself has to have stumbled over what the closure returned: the user's code is not running any more.
    """
    innermost, level = (failure.levels or (None,))[-1], failure.user
    if innermost is None or level is None or level.statement is None or innermost is level:
        return None
    if innermost.variables.get("closure") is None or not issubclass(
        type(innermost.variables.get("self")), torch.optim.Optimizer
    ):
        return None
    for node in calls_in(level.statement):
        given = (node.args[0] if node.args else keyword(node, "closure")) if callee(node)[1] == "step" else None
        if isinstance(given, ast.Lambda) and isinstance(given.body, ast.Call):
            return level, given.body
        if given is not None and dotted(given):
            return level, ast.copy_location(ast.Call(given, [], []), given)
    return None
