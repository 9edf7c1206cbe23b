"""The tensor that a failing statement was about to change in place, and what the program calls it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from backsight.naming import search
from backsight.naming.plain import class_name
from backsight.source import Place
from backsight.source.bindings import uses
from backsight.source.body import calls_in, dotted, expressions, is_stored
from backsight.source.changes import changed_memory
from backsight.story.changes import works_in_place
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.memory import base_of, is_leaf, is_tensor
from backsight.tape import tensors_in

Accepts = Callable[[torch.Tensor], bool]

_CONTAINERS = (list, tuple, dict)
_ARGUMENTS = ("input", "self", "tensor", "x")


@dataclass(frozen=True, eq=False)
class Written:
    """What a statement changes.

    name: the variable in the statement, `p`, `params`; empty if the text does not show it.
    text: what the statement calls the tensor itself, `params[1]`.
    path: what the program calls it, `model.weight`; empty if no variable holds it.
    tensor: the tensor; None if the variable is gone.
    module: the class of the module that works in place, if one does.
    callers: the levels of the user's code from that of the statement outwards.
    """

    level: Level
    statement: ast.stmt | None
    name: str = ""
    text: str = ""
    path: str = ""
    tensor: Any = None
    module: str = ""
    callers: tuple[Level, ...] = ()

    @property
    def label(self) -> str:
        return self.path or self.text or "the tensor"

    @property
    def outer(self) -> Place:
        """The statement that a block can be put around: of a lambda the one that called it."""
        return next(
            (each.place for each in self.callers if each.function.rpartition(".")[2] != "<lambda>"), self.level.place
        )

    @property
    def here(self) -> str:
        """What to call it beside the statement."""
        return self.text or self.label


def written(failure: Failure, accepts: Accepts) -> Written | None:
    """Return what the innermost statement of the user's changes: of several candidates the first that `accepts`.

    Where the text shows none, as in a call of a module that works in place, the arguments of the library functions
    inside it are looked at, and last whatever the statement reads.
    """
    level = failure.user
    if level is None:
        return None
    statement = level.statement
    changed = changed_memory(statement) if statement and level.body else []
    for each in changed:
        name, text, value = _part(level, statement, each)
        for tensor in tensors_in(value):
            if is_tensor(tensor) and accepts(tensor):
                path = path_of(failure, tensor)
                return Written(level, statement, name, text, path, tensor, callers=failure.users)
    tensor, module = _inside(failure, level, accepts)
    if tensor is None and not changed:
        tensor = next((each for each in _read(level, statement) if accepts(each)), None)
    if tensor is not None:
        path = path_of(failure, tensor)
        spelled = next(_spelling(level, statement, tensor), None)
        text = level.body.text(spelled) if level.body is not None and spelled is not None else ""
        return Written(level, statement, "", text, path, tensor, module, failure.users)
    name = next(filter(None, map(dotted, changed)), "")
    return Written(level, statement, name, name, module=module, callers=failure.users)


def path_of(failure: Failure, tensor: torch.Tensor) -> str:
    """What the program calls the tensor; of a view of a leaf, the leaf."""
    base = base_of(tensor)
    wanted = base if base is not None and is_leaf(tensor) else tensor
    (names,) = search([wanted], frames=failure.frames).names
    own = [name for name in names if ".param_groups[" not in name.path]
    return own[0].path if own else ""


def receiver(found: Written) -> tuple[object, str]:
    """The object whose attribute is called with the leaf, and that attribute: `self` and `act`, `self.act(self.w)`."""
    text = found.level.body.text if found.level.body else ast.unparse
    called = (dotted(each.func) for each in calls_in(found.statement) if found.text in map(text, each.args))
    held, _, attribute = next(filter(None, called), "").rpartition(".")
    return found.level.value(held), attribute


def _part(level: Level, statement: ast.stmt | None, changed: ast.expr) -> tuple[str, str, object]:
    """What the statement calls the changed object, and the part of it, and that part, of `params[i] -= 1`."""
    assert level.body is not None
    name, value = dotted(changed) or level.body.text(changed), value_of(level, changed)
    for node in expressions(statement):
        if isinstance(node, ast.Subscript) and level.body.text(node.value) == name and type(value) in _CONTAINERS:
            key = value_of(level, node.slice)
            if type(key) in (int, str) and _has(value, key):
                return name, level.body.text(node), value[key]  # type: ignore[index]  # a plain container
            if (
                isinstance(node.slice, ast.Name) and node.slice.id not in level.variables
            ):  # a comprehension's, which has ended
                return name, level.body.text(node), value
    return name, name, value


def _has(container: Any, key: Any) -> bool:
    if type(container) is dict:
        return key in container
    return type(key) is int and -len(container) <= key < len(container)


def _inside(failure: Failure, level: Level, accepts: Accepts) -> tuple[torch.Tensor | None, str]:
    """The tensor in the innermost of the library's functions that the statement has called, and the module's class."""
    at = next(k for k, each in enumerate(failure.levels) if each.frame is level.frame)
    inner = list(reversed(failure.levels[at + 1 :]))
    modules = (each.variables.get("self") for each in inner)
    module = next((class_name(type(each)) for each in modules if works_in_place(each)), "")
    for each in inner:
        for argument in _ARGUMENTS:
            value = each.variables.get(argument)
            if is_tensor(value) and accepts(value):
                return value, module
    return None, module


def _spelling(level: Level, statement: ast.stmt | None, tensor: torch.Tensor) -> Iterator[ast.expr]:
    """The expressions of a statement that are this tensor, in the function where it stands."""
    reads = (each for each in expressions(statement) if level.body and not is_stored(each))
    yield from (each for each in reads if value_of(level, each) is tensor)


def _read(level: Level, statement: ast.stmt | None) -> Iterator[torch.Tensor]:
    """The tensors that the statement reads by name."""
    for use in uses(statement):
        value = level.value(use.name)
        if not use.binds and is_tensor(value):
            yield value
