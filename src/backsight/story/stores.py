"""The statements that store what a variable, an attribute or a container holds, and those that read it: in the
functions that run, the methods of its owner's class, and whatever else of the program calls it by its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch

from backsight.naming.plain import class_dict, class_name, is_class, mro, namespace
from backsight.source import (
    Body,
    Place,
    assignments,
    function_at,
    lets_through,
    loop_facts,
    may_have_history,
    parsed,
    statement_at,
)
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, declared, names_read, parameters_of, reads, uses
from backsight.source.body import SCOPES, body_around, callee, calls_in, dotted, expressions, functions, statements
from backsight.source.keeping import Keeping, is_cached, keepings
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, function_of, is_users
from backsight.story.files import user_files
from backsight.story.memory import is_module
from backsight.story.sections import (
    Section,
    arguments,
    body_of,
    function_called,
    held_by,
    is_user_function,
    methods_of,
    section_of,
    undecorated,
)
from backsight.text import as_code

_ENTRIES = re.compile(r"(.*?(?:\.__defaults__\[\d+\])?)((?:\[(?:'[^']*'|\"[^\"]*\"|[^\]]*)\])*)")


def apart(path: str) -> tuple[str, str]:
    """The variable or the attribute of a path, and which entries of it.

    >>> apart("agents[0].notes['h'][1]")
    ('agents[0].notes', "['h'][1]")
    """
    found = _ENTRIES.fullmatch(path)
    return (found[1], found[2]) if found else (path, "")


def held_as(failure: Failure, path: str) -> object:
    """What the nearest function of the program that knows a path has there; None where none does."""
    node = parsed(path) if "[" in path else None
    values = (
        value_of(each, node) if node is not None else each.value(path) for each in failure.users or failure.levels
    )
    return next((value for value in values if path and value is not None), None)


def each_of(failure: Failure, owners: Sequence[str]) -> str:
    """How a loop goes over some objects: `model.blocks`, if they are all that is in there; else one after the other."""
    owners = [*map(as_code, owners)]
    container = re.sub(r"\[\d+\]$", "", owners[0])
    every = held_as(failure, container)
    is_known = type(every) in (list, tuple) or issubclass(type(every), torch.nn.ModuleList | torch.nn.Sequential)
    alone = is_known and len(every) == len(owners)  # type: ignore[arg-type]  # a container, as asked
    return (
        container
        if alone and {*owners} == {f"{container}[{i}]" for i in range(len(owners))}
        else f"({', '.join(owners)})"
    )


class Spelled(NamedTuple):
    """A function, and what it calls something."""

    body: Body
    name: str


@dataclass(frozen=True, eq=False)
class Store:
    """A statement that stores something.

    inside: whether it puts it into what is there already, a container or a tensor.
    once: whether it stands where it runs only once: in a constructor, in a class, outside of every loop of a module.
    """

    body: Body
    keeping: Keeping
    inside: bool

    @property
    def place(self) -> Place:
        return self.keeping.place

    @property
    def statement(self) -> ast.stmt | None:
        return statement_at(self.body, *self.place.position)

    @property
    def once(self) -> bool:
        if isinstance(self.body.node, ast.Module):
            return loop_facts(self.body, self.place.line) is None
        return isinstance(self.body.node, ast.ClassDef) or self.body.name == "__init__"

    @cached_property
    def again(self) -> bool:
        """Whether it computes it from what was there, as the text shows it: `last = self.h; self.h = cell(x, last)`."""
        statement, name = self.statement, self.keeping.name
        value = statement if isinstance(statement, ast.AugAssign) else getattr(statement, "value", None)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):  # `path.append(f(path[-1]))`
            read = names_read(*statement.value.args)
        else:
            read = names_read(value)
        if name in read or statement is None:
            return statement is not None and lets_through(statement, name)
        return any(name in ancestors(self.body, each, statement.lineno) for each in read)

    @property
    def has_history(self) -> bool:
        """Whether the text leaves what is stored a history: not of `self.state = None`."""
        statement = self.statement
        return statement is None or may_have_history(statement)


def spellings(failure: Failure, path: str) -> list[Spelled]:
    """The functions that may store or read what a variable or an attribute holds, those that run first."""
    found = [Spelled(level.body, path) for level in failure.users if level.body]
    owner, _, attribute = path.rpartition(".")
    held = held_as(failure, owner)
    if attribute.startswith("__defaults__[") and (parameter := default_of(failure, path)) and held is not None:
        body = function_at(function_of(held).__code__)
        return [Spelled(body, parameter)] if body is not None else []
    cls = held if is_class(held) else type(held)
    if not owner:
        found += [Spelled(body, path) for body in _functions(failure) if path in _outer(body)]
    elif held is not None and (is_users(cls) or is_module(held)):
        found += [Spelled(body, f"self.{attribute}") for body in methods_of(cls, where=keeps_results)]
        found += [Spelled(body, attribute) for body in _classes(failure, cls)]
        found += [Spelled(body, name) for body in _functions(failure) for name in _attributes(body, attribute)]
    for level in failure.users:
        section = section_of(level)
        found += _given(section, path, _DEEP) if section is not None else ()
    return list({(id(body.node), name): Spelled(body, name) for body, name in found}.values())


def keeps_results(cls: type) -> bool:
    """Whether a class may keep results between passes without telling: the program's own, or a module of a library."""
    module = class_dict(cls).get("__module__")
    return is_users(cls) or (torch.nn.Module in mro(cls) and not str(module).startswith("torch."))


def _given(section: Section, name: str, depth: int) -> Iterator[Spelled]:
    """The functions that are given something by the calls in a function, and what each of them calls it."""
    every = [call for each in statements(section.body.node) for call in calls_in(each)] if depth else []
    for call in every:
        if name not in (dotted(each) for each in (*call.args, *(given.value for given in call.keywords))):
            continue
        function, owner = function_called(section, call)
        function = undecorated(function)
        body = body_of(function)
        for parameter, text in arguments(function, owner, call).items() if body is not None else ():
            if text == name and body is not None:
                yield Spelled(body, parameter)
                inside = Section(body, (), held_by(function, owner), function.__globals__)
                yield from _given(inside, parameter, depth - 1)


_DEEP = 3
"""How far something is followed that one function hands to the next."""


def default_of(failure: Failure, variable: str) -> str:
    """The parameter whose default a path leads to, `made` for `table.__defaults__[0]`; empty for any other path."""
    owner, _, number = variable.rpartition(".__defaults__[")
    function = function_of(held_as(failure, owner)) if owner else None
    if function is None or not is_user_function(function):
        return ""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount][-len(function.__defaults__ or ()) :]
    return str(names[int(number[:-1])]) if int(number[:-1]) < len(names) else ""


def _functions(failure: Failure) -> Iterator[Body]:
    return (body for file in user_files(failure) for body in functions(file))


def _outer(body: Body) -> set[str]:
    """The names of a function that are not its own; all those of a module."""
    used = {use.name for each in statements(body.node) for use in uses(each)}
    if isinstance(body.node, ast.Module):
        return used
    assigned = set[str]().union(*map(bound, statements(body.node)))
    own = assigned - declared(body.node) | parameters_of(body.node)
    return used - own


def _attributes(body: Body, attribute: str) -> set[str]:
    """What a function calls this attribute of objects that it was given: `state.h`."""
    used = {use.name for each in statements(body.node) for use in uses(each)}
    return {name for name in used if name.endswith(f".{attribute}") and not name.startswith("self.")}


def _classes(failure: Failure, cls: type) -> Iterator[Body]:
    for file in user_files(failure):
        module = body_around(file, 0)
        for node in ast.walk(module.node) if module else ():
            if module and isinstance(node, ast.ClassDef) and node.name == class_name(cls).rpartition(".")[2]:
                yield Body(file, node, module.lines)


def stores(failure: Failure, path: str) -> list[Store]:
    """The statements that store what a variable or an attribute holds, or put something into that."""
    found: dict[tuple[str, tuple[int, int]], Store] = {}
    if path.endswith(".<cached>"):
        return list(_returned(failure, path))
    for body, name in spellings(failure, path):
        inside = [Store(body, each, not each.sums) for each in keepings(body, name)]
        whole = [
            Store(body, Keeping(place, name, _value(body, place), cached=is_cached(body, name, place)), inside=False)
            for place in (each for at in assignments(body, name) for each in _results(body, at))
        ]
        for each in (*whole, *inside):
            found.setdefault((body.file, each.place.position), each)
    return list(found.values())


def _returned(failure: Failure, path: str) -> Iterator[Store]:
    """What a function returns whose results a decorator keeps."""
    wrapped = (namespace(held_as(failure, path.rpartition(".")[0])) or {}).get("__wrapped__")
    function = function_of(wrapped)
    body = function_at(function.__code__) if function is not None else None
    for each in statements(body):
        if body is not None and isinstance(each, ast.Return) and each.value is not None:
            yield Store(body, Keeping(body.place(each), path, body.text(each.value), cached=True), inside=True)


def _results(body: Body, place: Place) -> list[Place]:
    """A statement; of a property that keeps what it returns, those that return it."""
    statement = statement_at(body, *place.position)
    if not isinstance(statement, SCOPES):
        return [place]
    kept = any("cached_property" in ast.unparse(each) for each in statement.decorator_list)
    return [body.place(each) for each in statements(statement) if isinstance(each, ast.Return)] if kept else []


def _value(body: Body, place: Place) -> str:
    statement = statement_at(body, *place.position)
    return body.text(statement.value) if isinstance(statement, ast.Assign) else ""


def emptied(failure: Failure, container: str) -> bool:
    """Whether a statement that runs again makes a container anew, or clears it."""
    return any(not each.inside and not each.once for each in stores(failure, container)) or any(
        isinstance(node, ast.Call) and callee(node)[1] == "clear" and (dotted(node.func) or "").startswith(f"{name}.")
        for body, name in spellings(failure, container)
        if body.name != "__init__"
        for each in statements(body.node)
        for node in expressions(each)
    )


def first_read(body: Body, name: str) -> Place | None:
    """The first statement that passes the history of `name` on; None where every one detaches it.

    A test, `if self.cache is not None:`, is that only where nothing computes with it.
    """
    every = (each for each in statements(body.node) if not isinstance(each, SCOPES))
    reading = [each for each in every if reads(each, name) and lets_through(each, name)]
    first = min(reading, key=lambda each: isinstance(each, ast.If | ast.While | ast.Assert), default=None)
    return body.place(first) if first is not None else None
