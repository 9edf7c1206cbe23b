"""Layers that a method of a module makes which has not run: one that is called later, or a misspelt `__init__`."""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass
from types import FunctionType

import torch

from backsight.diagnosis.wording import listed
from backsight.naming.plain import class_dict, is_class, mro, namespace
from backsight.source import Body, Place, loop_facts
from backsight.source.bindings import bound, names_read, parameters_of
from backsight.source.body import begins, callee, calls_in, dotted, statements
from backsight.source.edits import on_line_with, put
from backsight.story.sections import methods_of
from backsight.tape import registered

_ALIKE = 0.8
_LAYERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Parameter)


@dataclass(frozen=True)
class Unbuilt:
    """The method, the attributes that it would give layers, and the statement of the first.

    misspelt: the lines on which its name stands for `__init__`, if it was meant to be that.
    by_forward: whether a forward pass leads to it.
    takes_none: whether it can be called without arguments.
    """

    method: str
    layers: tuple[str, ...]
    place: Place
    definition: Place
    misspelt: tuple[int, ...]
    by_forward: bool
    takes_none: bool


def unbuilt(module: torch.nn.Module) -> Unbuilt | None:
    """Return the method of a module's class that would make its layers; None where none would."""
    bodies = list(methods_of(type(module)))
    for body in bodies:
        node = body.node
        made = _made(module, body) if isinstance(node, ast.FunctionDef) and node.name != "__init__" else []
        if not made or not isinstance(node, ast.FunctionDef):
            continue
        given = node.args
        required = len(given.args) - 1 - len(given.defaults) + sum(each is None for each in given.kw_defaults)
        called = {name for each in bodies for name in _called(each)}
        own = any({node.name, "__init__"} <= set(class_dict(base)) for base in mro(type(module)))
        is_meant = not own and node.name not in called and required <= 0 and _is_alike(node.name)
        names = [call.lineno for each in statements(node) for call in calls_in(each) if callee(call)[1] == node.name]
        return Unbuilt(
            node.name,
            tuple(name for name, _ in made),
            made[0][1],
            body.place(node, f"def {node.name}({ast.unparse(given)}):"),
            (node.lineno, *names) if is_meant else (),
            node.name in _reached(bodies, "forward"),
            required <= 0,
        )
    return None


@dataclass(frozen=True)
class Passing:
    """Layers that methods make whenever they run, and drop: the statements, and what makes them in `__init__`."""

    places: tuple[Place, ...]
    layers: tuple[str, ...]
    fix: str


def made_in_passing(module: torch.nn.Module) -> Passing | None:
    """Return the layers that methods of a module's class call at once, `nn.Linear(8, 2)(x)`; None if there are none."""
    bodies = list(methods_of(type(module)))
    init = next((each for each in bodies if each.name == "__init__"), None)
    places, layers, kept, lines, whole = list[Place](), list[str](), list[str](), list[str](), init is not None
    for body in (each for each in bodies if each.name != "__init__"):
        every = [*statements(body.node)]
        local = parameters_of(body.node) | {name for each in every for name in bound(each)}
        called = {id(call.func) for each in every for call in calls_in(each)}
        names = {node.func.id for each in every for node in calls_in(each) if isinstance(node.func, ast.Name)}
        for each in every:
            found = [call for call in calls_in(each) if _is_layer(dotted(call.func) or "")]
            named = each.value if isinstance(each, ast.Assign) and bound(each) & names else None
            changes = dict[ast.expr, str]()
            for call in sorted((one for one in found if id(one) in called or one is named), key=begins):
                places += [body.place(each)] if body.place(each) not in places else []
                layers.append(body.text(call))
                name = f"self.{body.name}_{sum(one.startswith(f'self.{body.name}_') for one in kept) + 1}"
                kept.append(f"{name} = {body.text(call)}")
                changes[call] = name
                whole &= not (names_read(call) - {"self"}) & (local - {"self"}) and not hasattr(module, name[5:])
                whole &= loop_facts(body, each.lineno) is None and init is not None and init.file == body.file
            new = on_line_with(body, each, changes) if changes else ""
            lines += [new] if new else []
            whole &= bool(new) or not changes
    if not places:
        return None
    at = init.place(init.node) if init is not None and isinstance(init.node, ast.FunctionDef) else None
    made = f"{listed([f'`{each}`' for each in kept], len(kept))}"
    if not whole or at is None:
        return Passing(tuple(places), tuple(layers), f"Make them in __init__(), such as `{kept[0]}`, and call them.")
    edits = put("\n".join(kept), "end", at)
    fix = f"Make them once, at the end of __init__(): {made}{edits}. Then {listed(lines, len(lines))}."
    return Passing(tuple(places), tuple(layers), fix)


def _made(module: torch.nn.Module, body: Body) -> list[tuple[str, Place]]:
    """The attributes that have no layer yet to which a method assigns one with parameters, each with its statement."""
    held = {**(namespace(module) or {}), **registered(module, "_modules"), **registered(module, "_parameters")}
    return [
        (name, body.place(each))
        for each in statements(body.node)
        if isinstance(each, ast.Assign)
        and isinstance(each.value, ast.Call)
        and _is_layer(dotted(each.value.func) or "")
        for name in bound(each)
        if name.startswith("self.") and held.get(name.removeprefix("self.")) is None
    ]


def _is_layer(maker: str) -> bool:
    """Whether `nn.Linear` and the like make parameters: what their `__init__` names tells, as it does for `nn.ReLU`."""
    if re.match(r"(?:torch\.)?nn\.[A-Z]\w*$", maker) is None:
        return False
    cls = getattr(torch.nn, maker.rpartition(".")[2], None)
    if not is_class(cls) or issubclass(cls, _LAYERS):
        return True
    own = [each for base in mro(cls) if base is not torch.nn.Module and (each := class_dict(base).get("__init__"))]
    names = {name for each in own if isinstance(each, FunctionType) for name in each.__code__.co_names}
    return any(name.endswith("Parameter") or isinstance(getattr(torch.nn, name, None), type) for name in names)


def _is_alike(name: str) -> bool:
    """Whether a name is `__init__` with a slip: `_init_`, `__int__`, `__inti__`."""
    letters = name.strip("_").lower()
    return sorted(letters) == sorted("init") or difflib.SequenceMatcher(None, letters, "init").ratio() >= _ALIKE


def _called(body: Body) -> set[str]:
    """The methods of its own object that a method calls, itself apart."""
    every = {
        callee(call)[1]
        for each in statements(body.node)
        for call in calls_in(each)
        if dotted(callee(call)[0]) == "self"
    }
    return every - {body.name}


def _reached(bodies: list[Body], method: str) -> set[str]:
    """A method and those that it leads to."""
    found = [method]
    for name in found:  # grows as we go
        inner = (each for body in bodies if body.name == name for each in _called(body))
        found += [each for each in inner if each not in found]
    return set(found)
