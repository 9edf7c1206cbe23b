"""The output is computed from values that are computed anew there, and not from the input that holds them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from backsight.diagnosis.errors.unused_input.case import Unused
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.source import Body, Place, assignments, function_at, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.body import callee, calls_in, dotted, expressions, given_to, statements
from backsight.source.edits import move, on_line, write
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level
from backsight.story.sections import Section, function_called, section_of, sections, undecorated

_SAME_VALUES = frozenset({"requires_grad_", "detach", "clone", "to", "cuda", "cpu", "contiguous"})
_WRAPPING = frozenset({"Parameter", "Variable", "tensor", "as_tensor"})


@dataclass(frozen=True)
class Again:
    """What to write instead, and the statements that show why."""

    fix: str
    evidence: tuple[Fact, ...] = ()


def written_again(case: Unused) -> Again | None:
    """Find where the output is computed from the very expression that gave the input its value."""
    level, computed = case.failure.user, case.made
    receiver = level.receiver if level else None
    if case.caller is not None and not (level and assignments(level.body, case.name, before=level.line)):
        (level, computed), receiver = case.caller, case.output
    body = level.body if level else None
    made = statement_at(body, *computed.position) if body and computed else None
    if level is None or body is None or made is None or len(case.names) != 1 or not case.name.isidentifier():
        return None
    place, value = _value(level, body, case.name)
    if place is None or value is None:
        return None
    if isinstance(value, ast.BinOp | ast.Call) and place.line < made.lineno:
        return _here(case, body, made, value) or (
            _elsewhere(case, level, place, value) if isinstance(value, ast.Call) else None
        )
    return _from_original(case, level, receiver, place, dotted(value) or "")


def _value(level: Level, body: Body, name: str) -> tuple[Place | None, ast.expr | None]:
    """The statement that gave the input its value, and the expression without what only copies it."""
    places = assignments(body, name, before=level.line)
    statement = statement_at(body, *places[-1].position) if places else None
    value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if statement is not None and isinstance(statement, ast.Assign) and not isinstance(statement.targets[0], ast.Name):
        return None, None
    while (inner := _copied(value)) is not None:
        value = inner
    return places[-1] if places else None, value


def _copied(value: ast.expr | None) -> ast.expr | None:
    """What an expression is a copy of: `x` of `x.clone()`, of `x.data` and of `nn.Parameter(x)`."""
    if isinstance(value, ast.Attribute) and value.attr == "data":
        return value.value
    if not isinstance(value, ast.Call):
        return None
    receiver, name = callee(value)
    if name in _SAME_VALUES and receiver is not None:
        return next(iter(given_to(value)), None)
    return value.args[0] if name in _WRAPPING and value.args else None


def _here(case: Unused, body: Body, made: ast.stmt, value: ast.expr) -> Again | None:
    """In the statement that computes the output."""
    same = ast.dump(value)
    found = [node for node in expressions(made) if ast.dump(node) == same]
    text, whole = body.text(made), body.text(found[0]) if found else ""
    if not found or text.count(whole) != len(found):
        return None
    return Again(
        f"Line {made.lineno} computes the same values a second time. Use {case.name} there: "
        f"{text.replace(whole, case.name)}{write(body.place(made), text.replace(whole, case.name))}."
    )


def _from_original(case: Unused, level: Level, receiver: str | None, copied: Place, original: str) -> Again | None:
    """The input is a copy of a variable, and the output is computed from that variable."""
    body = level.body
    if body is None:
        return None
    found = ancestors(body, receiver, level.line).get(original) if original and receiver else None
    if found is None or original == case.name:
        return None
    reading = statement_at(body, *found.read.position)
    nodes = [each for each in expressions(reading) if dotted(each) == original] if reading is not None else []
    line = rewritten(body, reading, dict.fromkeys(nodes, case.name)) if reading is not None and nodes else ""
    if reading is None or not line or reading.lineno == copied.line:
        return None
    at = body.place(reading)
    if copied.line > reading.lineno:
        above = f"above line {reading.lineno}{move(copied, 'above', at)}"
        how = f"Move line {copied.line}, `{copied.text}`, {above}, and write `{line}` there"
    else:
        how = f"Write `{line}` on line {reading.lineno}"
    return Again(
        f"{how}{write(at, line)}, so that {case.output} is computed from {case.name}.",
        (
            shown(copied, f"creates {case.name}, a copy of {original}."),
            *([shown(found.read, f"uses {original} itself.")] if found.read != case.made else []),
        ),
    )


def _elsewhere(case: Unused, level: Level, copied: Place, value: ast.Call) -> Again | None:
    """In a function that the statement of the output calls: `model(x)`, which looks the embeddings up again."""
    here = section_of(level)
    own, owner = function_called(here, value) if here is not None else (None, None)
    for section in sections(case.failure) if own is not None else ():
        for call, place in section.calls() if section.level is None else ():
            function, of = function_called(section, call)
            if here is None or function is not own or (of is not owner and of is not None):
                continue
            shows = (
                shown(copied, f"creates {case.name}, with the values of {here.body.text(value)}."),
                shown(place, f"computes them again, without {case.name}."),
            )
            unknown = f"Give {case.name} to what takes the result of line {place.line}, in place of that result."
            return Again(_given(case.name, level, section, call, place) or unknown, shows)
    return None


def _given(name: str, level: Level, section: Section, call: ast.Call, place: Place) -> str:
    """How to give the input to the function that computes it again, where the failing function calls that itself."""
    body = level.body
    for statement in statements(body):
        for outer in calls_in(statement) if statement.lineno <= level.line else ():
            function, _ = function_called(level, outer)
            if body is None or not _runs(function, section.body):
                continue
            return _optional(name, body, section.body, statement, outer, call, place)
    return ""


def _runs(function: Any, body: Body) -> bool:
    found = function_at(code) if (code := getattr(undecorated(function), "__code__", None)) is not None else None
    return found is not None and found.node is body.node


def _optional(
    name: str, body: Body, inner: Body, statement: ast.stmt, outer: ast.Call, call: ast.Call, place: Place
) -> str:
    """How to let a function take the input: as a parameter that may be left out."""
    signature, at = getattr(inner.node, "args", None), statement_at(inner, *place.position)
    if signature is None or signature.vararg or signature.kwarg or signature.kwonlyargs or at is None:
        return ""
    chosen = f"{inner.text(call)} if {name} is None else {name}"
    whole = getattr(at, "value", None) is call
    line = rewritten(inner, at, {call: chosen if whole else f"({chosen})"})
    calls = rewritten(
        body, statement, {outer: ast.unparse(ast.Call(outer.func, outer.args, [*outer.keywords, _as(name)]))}
    )
    if not line or not calls or name in {each.arg for each in signature.args}:
        return ""
    function = f"{getattr(inner.node, 'name', '')}({ast.unparse(signature)}, {name}=None)"
    if not isinstance(inner.node, ast.FunctionDef):
        return ""
    first = inner.place(inner.node)
    return (
        f"Let {inner.name} take it: {on_line(first, f'def {function}:')}, on line {place.line} `{line}`"
        f"{write(place, line)}, and on line {statement.lineno} `{calls}`{write(body.place(statement), calls)}."
    )


def _as(name: str) -> ast.keyword:
    return ast.keyword(name, ast.Name(name))
