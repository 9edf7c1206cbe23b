"""Which setting a call has a flag from: what a `partial` passes, an attribute of an object, a default of its class."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import class_dict
from backsight.naming.roots import is_user_class
from backsight.source import Body, Place, assignments, statement_at
from backsight.source.bindings import assigned, bound, stored_arguments
from backsight.source.body import body_around, callee, dotted, is_constant, keyword
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, follow, method
from backsight.story.files import calls_in_files, user_files
from backsight.story.sections import Section, methods_of


@dataclass(frozen=True)
class Setting:
    """A flag that is False, and where that was decided.

    place: the statement to change. evidence: the statements that the value came through, the first first.
    fix: what to write there.
    """

    place: Place
    evidence: tuple[Fact, ...]
    fix: str


def setting(failure: Failure, of: Level | Section, call: ast.Call, flag: str) -> Setting | None:
    """Return what decided that a call has False for a flag; None where its text does, or where that is not known."""
    body, given = of.body, keyword(call, flag)
    if body is None:
        return None
    if given is not None:
        place = body.place(statement_at(body, call.lineno, call.col_offset) or call)
        return _of_attribute(failure, of, None, body, given, (), flag, place)
    name, function = dotted(call.func), value_of(of, call.func)
    if name is None or type(function) is not functools.partial or function.keywords.get(flag) is not False:
        return None
    owner = value_of(of, ast.parse(name.rpartition(".")[0], mode="eval").body) if "." in name else None
    for where, statement, made in _partials(of, owner, name):
        given = keyword(made, flag)
        if given is None:
            continue
        place, written = where.place(statement), where.text(given)
        if is_constant(given, False):
            new = rewritten(where, statement, {given: "True"}) or f"{flag}=True"
            return Setting(
                place, (shown(place, f"passes {flag}=False to it."),), f"On line {place.line}, write `{new}`"
            )
        passes = shown(place, f"passes {flag}={written} to it, which is False.")
        return _of_attribute(failure, of, owner, where, given, (passes,), flag, place)
    return None


def _partials(of: Level | Section, owner: object, name: str) -> Iterator[tuple[Body, ast.stmt, ast.Call]]:
    """The statements that give a name, or an attribute of an object, a `partial`."""
    bodies = [(of.body, name)] if of.body is not None else []
    module = body_around(of.body.file, 0) if of.body is not None else None
    bodies += [(module, name)] if module is not None else []
    bodies += (
        [(each, f"self.{name.rpartition('.')[2]}") for each in methods_of(type(owner))] if owner is not None else []
    )
    for body, called in bodies:
        for place in assignments(body, called):
            statement = statement_at(body, *place.position)
            for target, value in assigned(statement) if statement is not None else ():
                if dotted(target) == called and isinstance(value, ast.Call) and callee(value)[1] == "partial":
                    yield body, statement, value  # type: ignore[misc]  # it is there, or nothing was assigned


def _of_attribute(
    failure: Failure,
    of: Level | Section,
    owner: object,
    body: Body,
    given: ast.expr,
    before: tuple[Fact, ...],
    flag: str,
    place: Place,
) -> Setting | None:
    """The setting that an expression reads, `cfg.second_order`, by the object that has it."""
    holder, attribute = (given.value, given.attr) if isinstance(given, ast.Attribute) else (None, "")
    held = value_of(of, holder) if holder is not None and body is of.body else None
    if held is None and holder is not None and owner is not None:  # in a method of the object, which has returned
        first, *rest = (dotted(holder) or "").split(".")
        kept = {parameter: attr for attr, parameter in stored_arguments(body)}
        held = follow(owner, rest if first == "self" else [kept[first], *rest] if first in kept else [""])
    kind = type(held)
    if held is None or follow(held, [attribute]) is not False or not is_user_class(class_dict(kind).get("__module__")):
        return Setting(place, before, f"Pass {flag}=True on line {place.line}") if before else None
    default = _default(failure, kind, attribute)
    evidence = [*before]
    made = [each for each in calls_in_files(failure) if callee(each[2])[1] == kind.__name__]
    gives = len(made) == 1 and _given(kind, made[0][2], attribute) is not None
    if default is not None and not gives:
        evidence.append(shown(default, f"makes {attribute} False by default."))
    new = _with(*made[0], kind, attribute) if len(made) == 1 else ""
    if new:
        at = made[0][0].place(made[0][1])
        evidence.append(shown(at, f"makes the {kind.__name__}, with {attribute} False."))
        return Setting(at, tuple(evidence), f"On line {at.line}, write `{new}`")
    where = f" on line {default.line}" if default is not None else ""
    return Setting(default or place, tuple(evidence), f"Set {attribute} of the {kind.__name__} to True{where}")


def _default(failure: Failure, kind: type, attribute: str) -> Place | None:
    """Where a class says that an attribute is False unless it is told: as a field, or as a default of `__init__`."""
    for file in user_files(failure):
        module = body_around(file, 0)
        for scope in ast.walk(module.node) if module is not None else ():
            if module is None or not isinstance(scope, ast.ClassDef) or scope.name != kind.__name__:
                continue
            for each in scope.body:
                is_field = attribute in bound(each) and is_constant(getattr(each, "value", None), False)
                if is_field or (
                    isinstance(each, ast.FunctionDef) and each.name == "__init__" and _takes(each, attribute)
                ):
                    return module.place(each)
    return None


def _takes(function: ast.FunctionDef, attribute: str) -> bool:
    """Whether `attribute=False` is a parameter of a function."""
    taken = function.args
    pairs = [*zip(reversed(taken.args), reversed(taken.defaults), strict=False)]
    pairs += [(arg, value) for arg, value in zip(taken.kwonlyargs, taken.kw_defaults, strict=True) if value]
    return any(arg.arg == attribute and is_constant(value, False) for arg, value in pairs)


def _with(body: Body, statement: ast.stmt, call: ast.Call, kind: type, attribute: str) -> str:
    """A statement that makes the object, with the setting True; empty where its arguments do not show what it gives."""
    unpacked = any(isinstance(each, ast.Starred) for each in call.args) or any(k.arg is None for k in call.keywords)
    if attribute not in _parameters(kind) or unpacked:
        return ""
    given = _given(kind, call, attribute)
    if given is not None:
        return rewritten(body, statement, {given: "True"}) if is_constant(given, False) else ""
    arguments = [ast.unparse(each) for each in (*call.args, *call.keywords)]
    return rewritten(
        body, statement, {call: f"{ast.unparse(call.func)}({', '.join([*arguments, f'{attribute}=True'])})"}
    )


def _given(kind: type, call: ast.Call, attribute: str) -> ast.expr | None:
    """What a call of a class gives for a parameter."""
    return dict(zip(_parameters(kind), call.args, strict=False)).get(attribute) or keyword(call, attribute)


def _parameters(kind: type) -> tuple[str, ...]:
    """What `__init__` takes, also of a dataclass."""
    code = getattr(method(kind, "__init__"), "__code__", None)
    return code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount] if code is not None else ()
