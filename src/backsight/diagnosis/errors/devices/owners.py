"""What a tensor belongs to, where it got its name, where a model is moved, and how a line can write a device."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from backsight.diagnosis.errors.devices import placed
from backsight.diagnosis.errors.devices.placed import Placed
from backsight.diagnosis.evidence.gradients import Held, made
from backsight.naming import search
from backsight.naming.plain import class_name, namespace
from backsight.source import Place, assignments, only, parsed, read_at
from backsight.source.bindings import parameters_of
from backsight.source.body import body_around, callee, calls_in, dotted, expressions
from backsight.source.edits import Edit, put, write
from backsight.source.rewriting import rewritten, with_flag
from backsight.story.failure import Failure, Level
from backsight.story.files import calls_in_files
from backsight.story.memory import is_module
from backsight.story.sections import methods_of
from backsight.tape import modules_in, parameters_in, registered

_NAMES = "zeros ones rand randn randint randperm arange tensor full empty eye linspace tril_indices triu_indices"
FACTORIES = frozenset(_NAMES.split())

_REGISTRIES = ("_parameters", "_buffers", "_modules")


@dataclass(frozen=True, eq=False)
class Owner:
    """The largest module that has registered a tensor: what it is called, and the path in it, `pos.table`."""

    module: torch.nn.Module
    name: str
    path: str
    is_parameter: bool
    direct: torch.nn.Module

    @property
    def has_moved(self) -> bool:
        """Whether some of its parameters are somewhere else than others."""
        return len(Counter(placed.device_of(each) for each in parameters_in(self.module))) > 1


def owner_of(failure: Failure, tensor: torch.Tensor) -> Owner | None:
    """Return the largest module around the failure that has registered a tensor; None if none has."""
    owners = [
        Owner(module, name.path, f"{path}.{own}" if path else own, registry == "_parameters", each)
        for module, name in search((), frames=failure.frames, collect=(torch.nn.Module,)).found
        if is_module(module)
        for path, each in modules_in(module)
        for registry in ("_parameters", "_buffers")
        for own, held in registered(each, registry).items()
        if held is tensor
    ]
    return max(owners, key=lambda owner: sum(1 for _ in modules_in(owner.module)), default=None)


def holder_in_module(failure: Failure, tensor: torch.Tensor) -> tuple[torch.nn.Module, str] | None:
    """Return the module that has a tensor for a plain attribute, which no `.to()` moves, and the attribute."""
    for module, name, value in _plain(failure):
        if value is tensor or any(item is tensor for item in _items(value)):
            return module, name
    return None


def container_of(failure: Failure, owned: torch.nn.Module) -> tuple[torch.nn.Module, str] | None:
    """Return the module that has another in a plain list or dict, which no `.to()` looks into, and the attribute."""
    for module, name, value in _plain(failure):
        for item in _items(value):
            if is_module(item) and any(each is owned for _, each in modules_in(item)):
                return module, name
    return None


def _plain(failure: Failure) -> Iterator[tuple[torch.nn.Module, str, object]]:
    """The plain attributes of the modules that variables of the failing functions lead to."""
    seen: set[int] = set()
    for level in failure.users:
        for root in (value for value in level.variables.values() if is_module(value)):
            for _, module in modules_in(root):
                if id(module) not in seen:
                    seen.add(id(module))
                    inside = namespace(module) or {}
                    yield from ((module, name, value) for name, value in inside.items() if name not in _REGISTRIES)


def _items(value: object) -> list[object]:
    if type(value) is dict:
        return list(value.values())
    return list(value) if type(value) in (list, tuple) else []  # type: ignore[call-overload]  # a list or a tuple


def moves(failure: Failure, module: torch.nn.Module | None = None) -> list[tuple[Place, str]]:
    """Return where the program moves a module, `.to(device)` or `.cuda()`, with what it is called on."""
    held = search((), frames=failure.frames, collect=(torch.nn.Module,)).found if module is None else [(module, None)]
    classes = {class_name(base) for each, _ in held if is_module(each) for base in type(each).__mro__}
    classes -= {"object", "Module"}
    found = []
    for body, statement, call in calls_in_files(failure):
        receiver, name = callee(call)
        if name not in ("to", "cuda") or receiver is None or (name == "to" and not call.args and not call.keywords):
            continue
        made = isinstance(receiver, ast.Call) and callee(receiver)[1] in classes
        if made or _names_module(failure, receiver, module):
            found.append((body.place(statement), body.text(receiver)))
    return found


def _names_module(failure: Failure, receiver: ast.expr, module: torch.nn.Module | None) -> bool:
    """Whether a receiver is the module, or any, in a function that still runs, or bears a name that one has for it."""
    text = dotted(receiver) or ""
    values = [level.value(text) for level in failure.users] if text else []
    if module is None:
        return any(is_module(value) for value in values)
    every = ((name, value) for level in failure.users for name, value in level.variables.items())
    return any(value is module for value in values) or any(name == text for name, value in every if value is module)


def spelled(failure: Failure, device: torch.device, other: str = "") -> str:
    """How the failing function can write a device: by a variable that is one, by another tensor's, or as text."""
    level = failure.user
    for space in (level.variables, level.frame.f_globals) if level else ():
        for name, value in list(space.items()):
            if type(value) is torch.device and value.type == device.type and (value.index or 0) == (device.index or 0):
                return name
    return f"{other}.device" if other and dotted(parsed(other)) else f'"{device}"'


def device_there(failure: Failure, place: Place | None, device: str) -> str:
    """How the function that makes something writes a device: as where it moves a model, if it does; else as here."""
    body = body_around(place.file, place.line) if place else None
    for other, _ in moves(failure):
        inside, statement = read_at(other)
        for call in calls_in(statement) if inside is not None and body is not None and inside.node is body.node else ():
            if callee(call)[1] == "to" and call.args and inside is not None and dotted(call.args[0]):
                return inside.text(call.args[0])
    return device


def is_known(place: Place, device: str) -> bool:
    """Whether what a device is written with has a value where a statement stands."""
    body, node = body_around(place.file, place.line), parsed(device)
    root = (dotted(node) or "").partition(".")[0] if node is not None else ""
    if isinstance(node, ast.Constant) or body is None or not root:
        return isinstance(node, ast.Constant)
    outer = () if isinstance(body.node, ast.Module) else assignments(body_around(place.file, 0), root)
    return bool(assignments(body, root, before=place.line) or outer) or root in parameters_of(body.node)


def moved_below(place: Place | None, name: str, device: str, *, assign: bool = True) -> Edit | str:
    """The statement that moves a module, below the one that makes it."""
    if place is None or not is_known(place, device):
        return ""
    return put(f"{name} = {name}.to({device})" if assign else f"{name}.to({device})", "below", place)


def made_there(place: Place | None, device: str) -> Edit | str:
    """A statement that makes a tensor, with the device in the only call that can take one."""
    body, statement = read_at(place)
    call = only(each for each in calls_in(statement) if callee(each)[1] in FACTORIES)
    if body is None or statement is None or call is None or place is None or not is_known(place, device):
        return ""
    new = with_flag(body, statement, call, "device", device)
    return write(body.place(statement), new) if new else ""


def anew(level: Level, old: str, new: str) -> Edit | str:
    """The statement that a function is at, with one of its expressions replaced."""
    body, statement = level.body, level.statement
    if body is None or statement is None:
        return ""
    text = rewritten(body, statement, {each: new for each in expressions(statement) if body.text(each) == old})
    return write(level.place, text) if text and text != body.text(statement) else ""


def origin(failure: Failure, each: Placed) -> Place | None:
    """Where a variable got its value; of a loop's, the loop."""
    if not each.text or dotted(parsed(each.text.partition("[")[0])) is None:
        return None
    text = each.text.partition("[")[0]
    tensor = each.tensor if text == each.text else each.level.value(text)
    found = made(Held(failure, each.level, text, tensor))  # type: ignore[arg-type]  # a container is looked for alike
    if found is not None:
        return found.place
    for level in failure.users:
        name = next((name for name, value in level.variables.items() if value is each.tensor), None)
        places = assignments(level.body, name, before=level.line + 1) if name else ()
        if places and places[-1] != level.place:
            return places[-1]
    return _in_methods(each.level, text)


def _in_methods(level: Level, path: str) -> Place | None:
    """The first statement that gives an attribute its value, in a method of what has it."""
    owner, _, attribute = path.rpartition(".")
    bodies = methods_of(type(level.value(owner))) if owner else ()
    return next((place for body in bodies for place in assignments(body, f"self.{attribute}")), None)


def made_as(failure: Failure, name: str, value: object) -> Place | None:
    """Where a module got its name: in a function that still runs, or in a method of the object that has it."""
    for level in failure.users:
        for each in dict.fromkeys((name, *(n for n, held in level.variables.items() if held is value))):
            if level.value(each) is not value or level.body is None:
                continue
            places = assignments(level.body, each, before=level.line)
            if places:
                return places[-1]
            if (place := _in_methods(level, each)) is not None:
                return place
        module_places = assignments(body_around(level.frame.f_code.co_filename, 1), name)
        if level.frame.f_globals.get(name) is value and module_places:
            return module_places[-1]
    return None
