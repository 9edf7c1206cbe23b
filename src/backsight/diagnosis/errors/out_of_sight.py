"""Modules that a model holds where it does not see them: in an object that is no module, or what a function uses."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, is_dataclass
from types import FunctionType, MethodType
from typing import Any

import torch

from backsight.diagnosis.errors.weights_held import CONTAINERS, beside, nn_of
from backsight.diagnosis.errors.weights_made import assigned_at
from backsight.naming.plain import class_dict, class_name, mro, namespace, slots
from backsight.naming.referents import closure
from backsight.source.body import body_around
from backsight.source.edits import on_line, put_at
from backsight.story.failure import is_users, method
from backsight.story.memory import is_module
from backsight.story.sections import body_of
from backsight.tape import modules_in
from backsight.text import listed

_MOST = 200
Trains = Callable[[object], bool]


@dataclass(frozen=True, eq=False)
class OutOfSight:
    """An attribute of a module that holds other modules, and is none itself.

    path: the module that has it, within the model; found: those modules, each with an expression that reads it from
    `self`, or the name that a function has for it.
    """

    path: str
    inner: torch.nn.Module
    attribute: str
    held: object
    found: dict[str, torch.nn.Module]

    @property
    def is_function(self) -> bool:
        return issubclass(type(self.held), FunctionType)

    @property
    def fix(self) -> str:
        if self.is_function:
            names = listed([*self.found], 4)
            return (
                f"Write the function as an nn.Module: create {names} in its __init__(), let its forward() compute what "
                f"the function does, and assign an instance of it to self.{self.attribute}."
            )
        place, every = assigned_at(self.inner, self.attribute), f"[{', '.join(self.found)}]"
        return _as_module(type(self.held)) or f"Register them as well: {beside(self.attribute, every, place)}."


def out_of_sight(module: torch.nn.Module, trains: Trains) -> OutOfSight | None:
    """Return the first attribute of a module, or of one in it, that hides modules which train."""
    own = [*modules_in(module)]
    seen = {id(each) for _, each in own}
    for path, inner in own:
        for attribute, held in (namespace(inner) or {}).items():
            is_searched = is_users(type(held)) or issubclass(type(held), FunctionType)
            if attribute.startswith("_") or is_module(held) or not is_searched:
                continue
            found = dict(_within(held, f"self.{attribute}", seen, trains))
            if found:
                return OutOfSight(path, inner, attribute, held, found)
    return None


def _within(held: object, text: str, seen: set[int], trains: Trains) -> Iterator[tuple[str, torch.nn.Module]]:
    """The modules in an object: in its attributes, in containers and other objects, in what its functions keep."""
    queue: list[tuple[str, Any]] = [(text, held)]
    seen = seen | {id(held)}
    for name, value in queue:  # grows as we go
        if is_module(value):
            if trains(value):
                yield name, value
            continue
        inside = _parts(name, value)
        queue += [each for each in inside if id(each[1]) not in seen] if len(queue) < _MOST else []
        seen |= {id(each) for _, each in inside}


def _parts(name: str, value: Any) -> list[tuple[str, Any]]:
    if type(value) is dict:
        return [(f"{name}[{key!r}]", each) for key, each in value.items() if type(key) in (str, int)]
    if type(value) in CONTAINERS:
        return [(f"{name}[{k}]", each) for k, each in enumerate(value)]
    if issubclass(type(value), FunctionType):
        return closure(value)
    if issubclass(type(value), MethodType):
        return [(f"{name}.__self__", value.__self__)]
    if is_users(type(value)):
        return [(f"{name}.{key}", each) for key, each in [*(namespace(value) or {}).items(), *slots(value)]]
    return []


def _as_module(cls: type) -> str:
    """How a class becomes an nn.Module, if it has an `__init__`, no other base, and no name that an nn.Module has."""
    own, init = class_dict(cls), method(cls, "__init__")
    theirs = {name for name in class_dict(torch.nn.Module) if not name.startswith("__")}
    body = body_of(init) if issubclass(type(init), FunctionType) else None
    if len(mro(cls)) != 2 or is_dataclass(cls) or body is None or theirs & set(own) or "__slots__" in own:
        return ""
    around = body_around(body.file, 0)
    name = class_name(cls)
    classes = [each for each in ast.walk(around.node) if isinstance(each, ast.ClassDef)] if around else []
    found = next((each for each in classes if each.name == name and body.node in each.body), None)
    first = getattr(body.node, "body", [None])[0]
    if found is None or around is None or first is None:
        return ""
    place, above = around.place(found), body.place(first)
    head = on_line(place, f"class {name}({nn_of(place)}.Module):")
    return f"Make {name} an nn.Module: {head}, and {put_at('super().__init__()', 'above', above)}."
