"""An iterator of parameters that something keeps, and that an earlier optimizer has gone through to its end."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

from backsight.naming import search
from backsight.naming.plain import class_name
from backsight.source import Body, Place, only, statements_of
from backsight.source.bindings import bound
from backsight.source.body import callee, expressions
from backsight.source.imports import library
from backsight.source.rewriting import rewritten, rewritten_line
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure
from backsight.story.files import user_files
from backsight.story.memory import is_module, needs_gradient
from backsight.tape import parameters_in

ONCE: tuple[type, ...] = (
    GeneratorType,
    filter,
    map,
    zip,
    itertools.chain,
    itertools.islice,
    type(iter([])),
    type(iter(())),
)
"""What can be gone through once."""

_GOES_THROUGH = frozenset({"list", "tuple", "set", "sorted", "sum", "max", "min", "any", "all", "len", "next", "print"})


@dataclass(frozen=True, eq=False)
class Exhausted:
    """An iterator, and what keeps it: `self.weights`; of a partial, `self.make_optimizer`.

    made: the statement that makes it, and mended: the same with a list; None and empty if that is not clear.
    sure: whether it had parameters to give when it was made.
    """

    kind: str
    holder: str
    is_of_partial: bool
    made: Place | None
    mended: str
    sure: bool


def exhausted(failure: Failure) -> Exhausted | None:
    """Return the iterator that an optimizer was given and found empty, if something of the program keeps it."""
    given = next((held for each in failure.levels if type(held := _given(each)) in ONCE), None)
    found = search([given], frames=failure.frames, limit=1).names[0] if given is not None else ()
    if not found:
        return None
    path, is_of_partial = found[0].path, False
    for inside in (".args[", ".keywords["):
        owner, bracket, _ = path.rpartition(inside)
        if bracket and any(type(level.value(owner)) is functools.partial for level in failure.users):
            path, is_of_partial = owner, True
    makers = list(_makers(failure, given))
    last = path.rpartition(".")[2].partition("[")[0]
    wrapped = [each for each in makers if is_of_partial and each.in_partial]
    stored = [each for each in makers if last in {name.rpartition(".")[2] for name in bound(each.statement)}]
    likely = [each for each in wrapped if each in stored] or wrapped or stored or makers
    maker = only(likely)
    return Exhausted(
        "generator" if type(given) is GeneratorType else f"{class_name(type(given))} object",
        path,
        is_of_partial,
        maker.place if maker else None,
        maker.mended if maker else "",
        maker is not None and _has_parameters(failure, maker.node),
    )


def _given(level: Any) -> object:
    """What a constructor of an optimizer was given, from its frame."""
    if level.frame.f_code.co_name != "__init__":
        return None
    return level.variables.get("params")


@dataclass(frozen=True, eq=False)
class _Maker:
    body: Body
    statement: ast.stmt
    node: ast.expr
    in_partial: bool

    @property
    def place(self) -> Place:
        """Its statement; of one over several lines, the line that has it."""
        if self.node.lineno == self.statement.lineno:
            return self.body.place(self.statement)
        return self.body.place(self.node, self.body.lines[self.node.lineno - 1].strip())

    @property
    def mended(self) -> str:
        text = self.body.text(self.node)
        new = f"list{text}" if isinstance(self.node, ast.GeneratorExp) else f"list({text})"
        if self.node.lineno == self.statement.lineno:
            return rewritten(self.body, self.statement, {self.node: new})
        return rewritten_line(self.body, self.node, new)


def _makers(failure: Failure, given: Any) -> Iterator[_Maker]:
    """The expressions that may have made an iterator, and that nothing goes through where they stand."""
    for body, statement in statements_of(*user_files(failure)):
        nodes = list(expressions(statement))
        consumed = {id(statement.iter)} if isinstance(statement, ast.For) else set[int]()
        partials = set[int]()
        for node in nodes:
            consumed |= {id(each.iter) for each in getattr(node, "generators", ())}
            if isinstance(node, ast.Starred):
                consumed.add(id(node.value))
            if isinstance(node, ast.Call):
                inside = {id(each) for each in (*node.args, *(each.value for each in node.keywords))}
                if callee(node)[1] == "partial":
                    partials |= inside
                elif callee(node)[1] in _GOES_THROUGH or library(node.func):
                    consumed |= inside
        for node in nodes:
            if id(node) not in consumed and _makes(node, given):
                yield _Maker(body, statement, node, id(node) in partials)


def _makes(node: ast.expr, given: Any) -> bool:
    """Whether an expression makes an iterator of this kind, as far as the text tells."""
    if type(given) is not GeneratorType:
        name = callee(node)[1] if isinstance(node, ast.Call) else ""
        return name == (class_name(type(given)) if not class_name(type(given)).endswith("_iterator") else "iter")
    code = given.gi_code
    if code.co_name == "<genexpr>":
        return isinstance(node, ast.GeneratorExp) and node.lineno == code.co_firstlineno
    return isinstance(node, ast.Call) and callee(node)[1] == code.co_name


def _has_parameters(failure: Failure, made: ast.expr) -> bool:
    """Whether an expression gives parameters of modules that have some, and of those that it chooses, too."""
    chosen = [test for node in ast.walk(made) for test in getattr(node, "ifs", ())]
    calls = [node for node in ast.walk(made) if isinstance(node, ast.Call)]
    given = [callee(node)[0] for node in calls if callee(node)[1] in ("parameters", "named_parameters")]
    held = [value for each in given for level in failure.users if is_module(value := value_of(level, each))]
    every = [parameter for module in held if is_module(module) for parameter in parameters_in(module)]
    if not all(isinstance(test, ast.Attribute) and test.attr == "requires_grad" for test in chosen):
        return False
    others = {callee(node)[1] for node in calls} - {"parameters", "named_parameters", "chain"}
    return not others and (any(map(needs_gradient, every)) if chosen else bool(every))
