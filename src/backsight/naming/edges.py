"""How a parent holds a child: one small rule a type.

Edges are looked up after the walk, and only where a name runs through them. A rule is a generator over the children
that are `wanted` (by id); it compares by identity and evaluates nothing. All rules along the type's bases apply, so a
subclass of dict has items and attributes.
"""

from __future__ import annotations

import _thread
import contextvars
import functools
import gc
from collections import deque
from collections.abc import Callable, Container, Iterator
from types import (
    AsyncGeneratorType,
    CellType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    TracebackType,
)
from typing import Any, Literal, NamedTuple

import numpy as np

from . import _torch, plain
from .frames import is_function, locals_of
from .referents import closure, registries
from .roots import Scope, qualname

EdgeKind = Literal[
    "item", "attribute", "parameter", "buffer", "module", "gradient", "variable", "namespace", "call", "hidden"
]


class Edge(NamedTuple):
    """One way from a parent to the child with this id. A `variable` starts a new name, in `scope`."""

    child: int
    kind: EdgeKind
    key: object = None
    cost: float = 1.0
    scope: Scope | None = None


Wanted = Container[int]
Rule = Callable[[Any, Wanted], Iterator[Edge]]

INDEX, OTHER_KEY, PATH_STEP, GRADIENT, VARIABLE, UNUSUAL, HIDDEN = 1.5, 2.0, 0.25, 0.5, 2.0, 3.0, 8.0

_WRAPPED = ("_orig_mod", "module")  # what torch.compile and DataParallel call the one module that they wrap
_RULES: dict[int, Rule] = {}
_EXACT = (dict, list, tuple, set, frozenset, deque)  # a child that these no longer hold is held by them no longer


def edges(parent: object, wanted: set[int]) -> list[Edge]:
    """Every way in which `parent` holds the wanted children; a hidden edge for each child whose way cannot be told.

    >>> x = object()
    >>> edges({"a": x}, {id(x)})[0][1:4]
    ('item', 'a', 1.0)
    """
    kind = type(parent)
    found: list[Edge] = []
    for base in plain.mro(kind):
        rule = _RULES.get(id(base))
        if rule is not None:
            found += rule(parent, wanted)
    told = {edge.child for edge in found}
    if any(kind is exact for exact in _EXACT):
        return found
    return found + [Edge(child, "hidden", plain.class_name(kind), HIDDEN) for child in wanted if child not in told]


def rule(*types: type) -> Callable[[Rule], Rule]:
    """Register how objects of these types hold their children."""

    def register(function: Rule) -> Rule:
        _RULES.update({id(cls): function for cls in types})
        return function

    return register


def attribute(child: int, name: object) -> Edge:
    """An attribute edge; private names and the plumbing of torch are names of last resort."""
    if type(name) is not str:
        return Edge(child, "hidden", plain.class_name(type(name)), HIDDEN)
    if name in ("param_groups", "__defaults__", "__kwdefaults__", "_backward_hooks", "_forward_hooks"):
        return Edge(child, "attribute", name, UNUSUAL)
    return Edge(child, "attribute", name, 1.5 if name.startswith("_") else 1.0)


def _members(names: dict[str, object], wanted: Wanted) -> Iterator[Edge]:
    return (attribute(id(held), name) for name, held in names.items() if id(held) in wanted)


@rule(object)
def of_object(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    if plain.inherits(type(parent), (type,)):
        return
    own = plain.namespace(parent)
    if own is not None:
        if id(own) in wanted:
            yield Edge(id(own), "namespace", None, 0.0)
        yield from _members(dict(own), wanted)
    for name, held in plain.slots(parent):
        if id(held) in wanted:
            yield attribute(id(held), name)
    if id(type(parent)) in wanted:
        yield Edge(id(type(parent)), "attribute", "__class__", UNUSUAL)


@rule(type)
def of_class(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    yield from _members(plain.class_dict(parent), wanted)


@rule(dict)
def of_dict(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    for key, held in list(dict.items(parent)):
        if id(held) in wanted:
            yield Edge(id(held), "item", key, 1.0 if type(key) is str else INDEX if type(key) is int else OTHER_KEY)
        if id(key) in wanted:
            yield Edge(id(key), "hidden", "key", HIDDEN)


@rule(list)
def of_list(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    return (Edge(id(held), "item", at, INDEX) for at, held in enumerate(list.__iter__(parent)) if id(held) in wanted)


@rule(deque)
def of_deque(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    held_now = list(deque.__iter__(parent))  # at once: another thread may append to a deque
    return (Edge(id(held), "item", at, INDEX) for at, held in enumerate(held_now) if id(held) in wanted)


@rule(tuple)
def of_tuple(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    fields = _fields(type(parent)) if type(parent) is not tuple else ()
    for at, held in enumerate(tuple.__iter__(parent)):
        if id(held) in wanted:
            yield attribute(id(held), fields[at]) if at < len(fields) else Edge(id(held), "item", at, INDEX)


def _fields(cls: type) -> tuple[object, ...]:
    """The field names of a namedtuple class."""
    for each in plain.mro(cls):
        found = plain.class_dict(each).get("_fields")
        if type(found) is tuple:
            return found
    return ()


@rule(set, frozenset)
def of_set(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    held_now = gc.get_referents(parent)
    return (Edge(id(held), "hidden", "element", HIDDEN) for held in held_now if id(held) in wanted)


@rule(np.ndarray)
def of_array(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    array: Any = vars(np.ndarray)
    if array["dtype"].__get__(parent).kind == "O":
        places = np.ndindex(array["shape"].__get__(parent))
        for place, held in zip(places, array["flat"].__get__(parent), strict=True):
            if id(held) in wanted:
                yield Edge(id(held), "item", place[0] if len(place) == 1 else place, INDEX)


@rule(_torch.Tensor)
def of_tensor(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    grad, base, hooks = _torch.gradient(parent), _torch.base(parent), _torch.hooks(parent)
    if id(grad) in wanted:
        yield Edge(id(grad), "gradient", "grad", GRADIENT)
    if id(base) in wanted:
        yield Edge(id(base), "attribute", "_base", UNUSUAL)
    if id(hooks) in wanted:
        yield Edge(id(hooks), "attribute", "_backward_hooks", UNUSUAL)
    for held in gc.get_referents(parent):
        if id(held) in wanted and plain.inherits(type(held), (_torch.FunctionNode,)):
            yield Edge(id(held), "attribute", "grad_fn", 1.0)


@rule(_torch.Module)
def of_module(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    for registry, held in registries(parent).items():
        kind: Any = _torch.REGISTRIES[registry]
        if id(held) in wanted:
            yield Edge(id(held), "attribute", registry, UNUSUAL)
        for name, child in list(dict.items(held)):
            if id(child) in wanted:
                wrapped = type(name) is str and name in _WRAPPED
                yield Edge(id(child), kind, name, UNUSUAL if wrapped else PATH_STEP)


@rule(FunctionType)
def of_function(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    code = parent.__code__
    scope = Scope(_definer(parent.__qualname__), "closure", None, code.co_filename, code.co_firstlineno)
    for name, held in closure(parent):
        if id(held) in wanted:
            yield Edge(id(held), "variable", name, VARIABLE, scope)
    for name in ("__defaults__", "__kwdefaults__"):
        if id(getattr(parent, name)) in wanted:
            yield attribute(id(getattr(parent, name)), name)


def _definer(name: str) -> str:
    """`train.<locals>.mk` for `train.<locals>.mk.<locals>.<lambda>`: the function whose variable a closure keeps."""
    return name.rpartition(".<locals>.")[0] or name


@rule(FrameType)
def of_frame(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    code = parent.f_code
    scope = Scope(qualname(code), "local", None, code.co_filename, parent.f_lineno)
    held = locals_of(parent) if is_function(parent) else {}
    return (Edge(id(each), "variable", name, VARIABLE, scope) for name, each in held.items() if id(each) in wanted)


@rule(GeneratorType, CoroutineType, AsyncGeneratorType)
def of_suspended(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    for name in ("gi_frame", "cr_frame", "ag_frame"):
        frame = getattr(parent, name, None)
        if frame is not None:
            if id(frame) in wanted:
                yield attribute(id(frame), name)
            yield from of_frame(frame, wanted)


@rule(CellType)
def of_cell(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    try:
        held = parent.cell_contents
    except ValueError:  # emptied since
        return
    if id(held) in wanted:
        yield attribute(id(held), "cell_contents")


@rule(TracebackType)
def of_traceback(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    yield from _members({"tb_frame": parent.tb_frame, "tb_next": parent.tb_next}, wanted)


@rule(BaseException)
def of_exception(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    own = vars(BaseException)
    names = ("__traceback__", "__cause__", "__context__", "args")
    yield from _members({name: own[name].__get__(parent) for name in names}, wanted)


@rule(MappingProxyType)
def of_proxy(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    for held in gc.get_referents(parent):
        if id(held) in wanted:
            yield Edge(id(held), "call", "", 0.0)


@rule(type({}.keys()), type({}.values()), type({}.items()))
def of_view(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    for held in gc.get_referents(parent):
        if id(held) in wanted:
            yield attribute(id(held), "mapping")


@rule(contextvars.ContextVar)
def of_context_variable(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    held = contextvars.copy_context().get(parent)
    if id(held) in wanted:
        yield Edge(id(held), "call", ".get()", 1.0)


@rule(_thread._local)
def of_thread_local(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    own = _thread._local.__getattribute__(parent, "__dict__")
    if id(own) in wanted:
        yield Edge(id(own), "namespace", None, 0.0)


@rule(type(functools.lru_cache(len)))
def of_cached_function(parent: Any, wanted: Wanted) -> Iterator[Edge]:
    named = plain.namespace(parent) or {}
    for held in gc.get_referents(parent):
        if id(held) in wanted and held is not named and not any(held is each for each in named.values()):
            yield Edge(id(held), "hidden", "cached", UNUSUAL)
