"""Custom Functions that are being applied, told by their `forward`, which stands on the stack.

No mode sees `Function.apply`, though it makes a node, before it calls `forward`; and from PyTorch 2.14 on it is C and
has no frame. The frame that is around that of `forward` is the caller's on every version.

Source: torch/csrc/autograd/python_function.cpp, `THPFunction_apply`.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import NamedTuple

import torch

from backsight.naming.frames import is_function, locals_of
from backsight.tape import forward_class, sequence_number
from backsight.tracing.intervals import Intervals
from backsight.tracing.program import innermost, is_programs
from backsight.tracing.sites import Site, Sites, node_of

_MOST = 10_000

Names = tuple[str, ...]


class _Running(NamedTuple):
    """A Function that is being applied: its name, the number of its node (None where forward is not given a ctx, as
    beside a `setup_context`), and the frame from which it is applied."""

    name: str
    number: int | None
    caller: FrameType | None


def account(table: Intervals, sites: Sites, first: int, frame: FrameType | None, returns_its_input: bool) -> None:
    """Account for nodes up to `first` that no call was seen to make: those of the custom Functions that `frame` is
    within, each of the line that applied it.

    `returns_its_input` says that a forward has ended, with what it was given, and `frame` is the one that applied it.
    """
    begin, table.known = table.known, first
    found = _within(frame, begin, first)
    if not found and _forwards.outdated():
        found = _within(frame, begin, first)
    if not found and returns_its_input and frame is not None:
        found.append((_Running(_applied_by(frame) or "apply", None, frame), begin, first))
    for running, number, end in reversed(found):
        user = innermost(running.caller)
        if running.number is None and running is found[-1][0]:
            number = begin  # under the transforms of torch.func, one call makes a node for each of them
        if user is not None:
            table.add(number, end, sites.of_call(user, running.name, running.caller))
    table.known = first


def _within(frame: FrameType | None, begin: int, end: int) -> list[tuple[_Running, int, int]]:
    """Return the Functions that `frame` is within whose nodes are numbered from `begin` up to `end`, innermost first,
    each with the first and the end of what is its."""
    found = []
    for running in _running(frame):
        number = end - 1 if running.number is None else running.number
        if not begin <= number < end:
            break  # its node was there before
        found.append((running, number, end))
        end = number
        if end == begin:
            break
    return found


def _applied_by(frame: FrameType | None) -> str:
    """Return the name of the Function that `frame` is applying, from its source; "" where that does not tell."""
    while frame is not None:
        name = _written(Site(frame.f_code, frame.f_lineno, frame.f_lasti))
        if name or is_programs(frame):
            break
        frame = frame.f_back
    if frame is None or not name:
        return ""
    variables = locals_of(frame) if is_function(frame) else {}
    held = variables.get(name, frame.f_globals.get(name))
    function = getattr(held, "__self__", held)  # of `cube = Cube.apply`
    return function.__name__ if isinstance(function, type) else name


@functools.lru_cache(maxsize=1024)
def _written(site: Site) -> str:
    match node_of(site):
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr="apply")):
            return name
        case ast.Call(func=ast.Name(id=name)):
            return name
    return ""


def forwards(function: type) -> Iterator[CodeType]:
    """Yield the code of the `forward` of a Function, with that of the decorators around it."""
    found = inspect.getattr_static(function, "forward", None)
    found = getattr(found, "__func__", found)
    while found is not None:
        code = getattr(found, "__code__", None)
        if isinstance(code, CodeType):
            yield code
        found = getattr(found, "__wrapped__", None)


def functions() -> Iterator[type]:
    """Yield every custom Function that there is."""
    found: list[type] = [torch.autograd.Function]
    for each in found:  # grows as we go
        found += each.__subclasses__()
    return iter(found[1:])


def _running(frame: FrameType | None) -> Iterator[_Running]:
    """Yield the Functions that are being applied, from within outwards."""
    while frame is not None:
        names = _forwards.of(frame)
        outermost, codes = frame, []
        while frame is not None and frame.f_code not in codes and (shared := _shared(names, _forwards.of(frame))):
            outermost, names = frame, shared  # a decorator may be around it
            codes.append(frame.f_code)
            frame = frame.f_back
        if not codes:
            frame = outermost.f_back
            continue
        ctx = _first_argument(outermost)
        function = forward_class(type(ctx))
        if function is not None:
            yield _Running(function.__name__, sequence_number(ctx), frame)
        else:
            applied = _applied_by(frame) if len(names) > 1 else ""  # one forward may be inherited by several
            yield _Running(applied if applied in names else names[0], None, frame)


def _shared(names: Names, others: Names) -> Names:
    return tuple(each for each in names if each in others)


def _first_argument(frame: FrameType) -> object:
    code = frame.f_code
    if code.co_argcount:
        return locals_of(frame).get(code.co_varnames[0])
    if code.co_flags & inspect.CO_VARARGS:
        given = locals_of(frame).get(code.co_varnames[code.co_kwonlyargcount])
        return given[0] if isinstance(given, tuple) and given else None
    return None


class _Forwards:
    """Which code is the `forward` of which Functions, by name: none for most of what stands on a stack."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[CodeType, Names]] = {}  # by the `id` of the code
        self._functions = 0

    def outdated(self) -> bool:
        """Whether there are other Functions than when this was last asked: then what was found is forgotten."""
        before, self._functions = self._functions, len(torch.autograd.Function.__subclasses__())
        if before == self._functions:
            return False
        self._found = {}
        return True

    def of(self, frame: FrameType) -> Names:
        """Return the names of the Functions of which the code of `frame` is the `forward`."""
        found = self._found.get(id(frame.f_code))
        return (found or self._look_up(frame))[1]

    def _look_up(self, frame: FrameType) -> tuple[CodeType, Names]:
        """Look up `frame` and all that is around it at once."""
        names: dict[int, dict[str, None]] = {}
        for function in functions():
            for code in forwards(function):
                names.setdefault(id(code), {})[function.__name__] = None
        if len(self._found) >= _MOST:
            self._found = {}
        known, found = self._found, (frame.f_code, tuple(names.get(id(frame.f_code), ())))
        outer: FrameType | None = frame
        while outer is not None:
            known[id(outer.f_code)] = outer.f_code, tuple(names.get(id(outer.f_code), ()))
            outer = outer.f_back
        return found


_forwards = _Forwards()
