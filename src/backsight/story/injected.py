"""Modules that a program has put into a finished model, such as adapters: which are new, and by which statement."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from backsight.naming.roots import is_user_class
from backsight.source import Place
from backsight.source.bindings import stored_arguments
from backsight.source.body import Body, callee, dotted, functions, statements
from backsight.story.failure import Failure
from backsight.story.files import user_files
from backsight.story.memory import is_module
from backsight.story.sections import methods_of
from backsight.tape import modules_in, registered


@dataclass(frozen=True, eq=False)
class Injected:
    """A class of the user's whose modules were put in: where, and which of their attributes are not what they wrap.

    count: how many of them the model holds.
    """

    place: Place
    kind: type
    new: tuple[str, ...]
    count: int

    def unfreezing(self, model: str) -> str:
        """The statement that trains them, whatever their parameters are called."""
        each = f"(m for m in {model}.modules() if isinstance(m, {self.kind.__name__}))"
        return f"for m in {each}: {'; '.join(f'm.{name}.requires_grad_(True)' for name in self.new)}"


def injected(failure: Failure, model: torch.nn.Module) -> Injected | None:
    """The modules of the user's own that a statement outside of a constructor has put into `model`."""
    kinds = {type(each).__name__: each for _, each in modules_in(model) if each is not model}
    for file in user_files(failure):
        made = {each.name: name for each in functions(file) for name in _returned(each)}
        for body in functions(file):
            for place, name in _put_in(body):
                first = kinds.get(made.get(name, name))
                if first is not None and is_user_class(type(first).__module__) and (new := _new(first)):
                    count = sum(type(each) is type(first) for _, each in modules_in(model))
                    return Injected(place, type(first), new, count)
    return None


@dataclass(frozen=True, eq=False)
class Replaced:
    """A part that a statement outside of its constructor has put into a model, `model.fc = nn.Linear(8, 2)`.

    target: what that statement calls it. path: where it stands in the model.
    """

    place: Place
    target: str
    path: str


def replaced_part(failure: Failure, model: torch.nn.Module) -> Replaced | None:
    """The last part that was put into `model` and is frozen as a whole."""
    parts, found = dict(modules_in(model)), list[Replaced]()
    for body in (body for file in user_files(failure) for body in functions(file)):
        for each in statements(body.node):
            targets, value = _stored(each)
            target = _INDEX.sub(r".\1", body.text(targets[0])) if len(targets) == 1 else ""
            if not isinstance(value, ast.Call) or target.count(".") <= target.startswith("self."):
                continue
            path = max((path for path in parts if path and f".{target}".endswith(f".{path}")), key=len, default="")
            part = parts.get(path)
            weights = list(part.parameters()) if part is not None else []
            made = type(part).__name__ == callee(value)[1] and not any(each.requires_grad for each in weights)
            if path and made and weights:
                found.append(Replaced(body.place(each), body.text(targets[0]), path))
    return found[-1] if found else None


_INDEX = re.compile(r"\[(-?\d+)\]")


def _put_in(body: Body) -> Iterator[tuple[Place, str]]:
    """The statements that put the result of a call into an object that is not `self`, each with what is called."""
    made: dict[str, str] = {}
    for each in statements(body.node):
        targets, value = _stored(each)
        for target in targets:
            name = callee(value)[1] if isinstance(value, ast.Call) else made.get(dotted(value) or "", "")
            if isinstance(target, ast.Name):
                made[target.id] = name
            elif name and (dotted(target) or "").partition(".")[0] != "self":
                yield body.place(each), name


def _returned(body: Body) -> Iterator[str]:
    """The class, or function, whose result a function returns."""
    returns = (each.value for each in statements(body.node) if isinstance(each, ast.Return))
    yield from (callee(value)[1] for value in returns if isinstance(value, ast.Call))


def _stored(statement: ast.stmt) -> tuple[list[ast.expr], ast.expr | None]:
    """Where a statement puts something, and what: an assignment, `setattr(layer, "q", LoRA(old))`."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=[value, *_])):
            return targets, value
        case ast.Assign(targets=targets, value=value):
            return targets, value
        case ast.Expr(value=ast.Call(func=ast.Name(id="setattr"), args=[target, _, value])):
            return [ast.Attribute(target, "", ast.Store())], value
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=target, attr="add_module" | "register_module"), args=[_, value])
        ):
            return [ast.Attribute(target, "", ast.Store())], value
    return [], None


def _new(module: torch.nn.Module) -> tuple[str, ...]:
    """The attributes with parameters that the constructor of a module does not take as they are from its arguments."""
    given = _given(module)
    tables: Mapping[str, object] = {**registered(module, "_parameters"), **registered(module, "_modules")}
    with_parameters = (
        name
        for name, held in tables.items()
        if held is not None and (not is_module(held) or next(held.parameters(), None) is not None)
    )
    return tuple(name for name in with_parameters if name not in given)


def _given(module: torch.nn.Module) -> set[str]:
    """The attributes that a constructor assigns one of its parameters to: `self.base = base`."""
    bodies = (body for body in methods_of(type(module)) if body.name == "__init__")
    return {attribute for body in bodies for attribute, _ in stored_arguments(body)}
