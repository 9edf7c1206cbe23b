"""What an object holds: the children that a search goes on to.

`gc.get_referents` asks the interpreter itself and runs nothing of the user's. The few types here need more than that
(a gradient lies in C++, an object array is no container to gc) or less (a function holds its module's globals).
"""

from __future__ import annotations

import _thread
import contextvars
import gc
import sys
from collections.abc import Callable, Iterable
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from . import _torch, plain
from .frames import locals_of
from .roots import is_user, is_user_class, module_dict

Expand = Callable[[Any], list[Any]]
Where = Callable[[Any], bool]

_ATOMS: tuple[type, ...] = (
    *(int, float, complex, bool, str, bytes, bytearray, range, type(None), type(...), type(NotImplemented)),
    *(CodeType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, MethodWrapperType),
    *(GetSetDescriptorType, MemberDescriptorType, _thread.LockType, np.dtype),
    *_torch.PLAIN_VALUES,
)
_ARRAY: Any = vars(np.ndarray)


def of_tensor(tensor: Any) -> list[Any]:
    extra = (_torch.gradient(tensor), _torch.base(tensor))
    return gc.get_referents(tensor) + [held for held in extra if held is not None]


def of_module(module: Any) -> list[Any]:
    """Parameters, buffers and submodules first-hand, so that they are named by module path."""
    registered = [child for held in registries(module).values() for child in list(dict.values(held))]
    return registered + gc.get_referents(module)


def registries(module: object) -> dict[str, dict[Any, Any]]:
    """The dicts in which an nn.Module keeps its parameters, buffers and submodules."""
    held = plain.namespace(module) or {}
    found = {name: held.get(name) for name in _torch.REGISTRIES}
    return {name: each for name, each in found.items() if plain.inherits(type(each), (dict,))}  # type: ignore[misc]  # inherits has checked


def of_array(array: Any) -> list[Any]:
    return list(_ARRAY["flat"].__get__(array)) if _ARRAY["dtype"].__get__(array).kind == "O" else []


def of_function(function: Any) -> list[Any]:
    passed_over = (function.__globals__, function.__builtins__, function.__closure__)
    held = [each for each in gc.get_referents(function) if not any(each is other for other in passed_over)]
    return held + [value for _, value in closure(function)]


def closure(function: Any) -> list[tuple[str, Any]]:
    """The variables that a function keeps from where it was defined, with their values."""
    found = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:  # not yet assigned, or deleted
            continue
    return found


def of_suspended(suspended: Any) -> list[Any]:
    """What a generator or coroutine holds, with what it waits for: in Python 3.10 its frame alone holds that."""
    waits_for = (getattr(suspended, name, None) for name in ("gi_yieldfrom", "cr_await", "ag_await"))
    held = gc.get_referents(suspended)
    return held + [each for each in waits_for if each is not None and not any(each is other for other in held)]


def of_context_variable(variable: Any) -> list[Any]:
    value = contextvars.copy_context().get(variable)
    return [*gc.get_referents(variable), value]


def of_thread_local(local: Any) -> list[Any]:
    return [_thread._local.__getattribute__(local, "__dict__")]


def of_class(cls: type) -> list[Any]:
    return list(plain.class_dict(cls).values())


def _tests() -> tuple[type, ...]:
    """The class of what pytest has collected: a test leads to all others, and what it is given lies in its frames."""
    nodes = sys.modules.get("_pytest.nodes")
    node = module_dict(nodes).get("Node") if issubclass(type(nodes), ModuleType) else None
    return (node,) if isinstance(node, type) else ()


_BY_BASE: tuple[tuple[type, Expand], ...] = (
    (_torch.Tensor, of_tensor),
    (_torch.Module, of_module),
    (np.ndarray, of_array),
    (FunctionType, of_function),
    (GeneratorType, of_suspended),
    (CoroutineType, of_suspended),
    (AsyncGeneratorType, of_suspended),
    (contextvars.ContextVar, of_context_variable),
)


def _always(held: object) -> bool:
    return True


class Referents:
    """How to expand each type met, worked out once a type; None for types that hold nothing worth visiting."""

    def __init__(self, collect: Iterable[type], where: Where | None, deep: bool) -> None:
        self.by_type: dict[int, Expand | None] = {id(atom): None for atom in _ATOMS}
        self.shared: set[int] = set()  # types whose objects remember every holder
        self.collected: set[int] = set()
        self.local: set[int] = set()  # classes made inside a function, which may be reachable by their objects only
        self._collect = tuple(collect)
        self.is_collected: Where = where or _always
        """Whether an object of a type that is collected is so itself."""
        self._deep = deep
        self._nothing = (ModuleType, np.generic, *_tests())
        self._types: list[type] = []  # keeps the types alive while their ids are keys

    def learn(self, cls: type) -> Expand | None:
        """Decide how objects of `cls` are expanded, and remember it."""
        self._types.append(cls)
        key = id(cls)
        if plain.inherits(cls, (_torch.Tensor, _torch.Module)):
            self.shared.add(key)
        if self._collect and plain.inherits(cls, self._collect):
            self.collected.add(key)
        if "<locals>" in plain.class_qualname(cls):
            self.local.add(key)
        self.by_type[key] = expand = self._expander(cls)
        return expand

    def _expander(self, cls: type) -> Expand | None:
        if plain.inherits(cls, self._nothing):
            return None
        if plain.inherits(cls, (type,)):
            return self._of_class
        if cls is _thread._local:  # a subclass would run its __init__ in this thread
            return of_thread_local
        if plain.inherits(cls, (FrameType,)):
            return self._of_frame
        for base, expand in _BY_BASE:
            if plain.inherits(cls, (base,)):
                return expand
        return gc.get_referents

    def _of_frame(self, frame: Any) -> list[Any]:
        """What a frame that a traceback keeps holds; a library's variables are no names of the user's."""
        return list(locals_of(frame).values()) if self._deep or is_user(frame) else []

    def _of_class(self, cls: type) -> list[Any]:
        user = self._deep or is_user_class(plain.class_dict(cls).get("__module__"))
        return of_class(cls) if user else []
