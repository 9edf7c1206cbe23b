"""Functions that wait inside a block without gradients: a generator at a yield, a coroutine while others run."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import GeneratorType
from typing import NamedTuple

import torch
from torch.utils.data import DataLoader

from backsight.naming.plain import is_class
from backsight.naming.roots import is_library
from backsight.source import Body, Place, assignments, function_at
from backsight.source.bindings import uses
from backsight.source.body import callee, expressions, functions, statements
from backsight.source.coroutines import AsyncFor, AsyncFunctionDef, AsyncWith, Await
from backsight.source.edits import move, put_at, unwrap, write
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, method
from backsight.story.files import user_files
from backsight.story.modes import Disabled, is_sure, nearest_at
from backsight.story.scenes import called_function
from backsight.story.sections import Section, held_by, section_of

_WAITING = (ast.Yield, ast.YieldFrom, Await, ast.Await)
_HANDING_OVER = (AsyncFor, AsyncWith)
_DEPTH = 4


class Waiting(NamedTuple):
    """A block without gradients that stays open while its function waits.

    at: the statement at which it waits. meanwhile: the loop that runs each time, of what a generator yields.
    """

    off: Disabled
    at: Place
    meanwhile: Place | None = None

    @property
    def instead(self) -> str:
        """Where to wait instead, without a full stop: above the block, where nothing comes before; else below it. A
        generator may do it inside a decorator, under which PyTorch enables gradients at each yield."""
        off, at, body = self.off, self.at, self.off.body
        block = next((each for each in statements(body.node) if each.lineno == off.place.line), None)
        if isinstance(body.node, AsyncFunctionDef):
            first = block.body[0] if isinstance(block, ast.With) else None
            if isinstance(first, ast.Expr) and first.lineno == at.line:
                above = f"above line {off.place.line}, `{off.place.text}`{move(at, 'above', off.place)}"
                return f"Move line {at.line}, `{at.text}`, {above}"
            rest = [body.place(each) for each in getattr(block, "body", ()) if each.lineno >= at.line]
            edit = move(rest, "beside", off.place) if rest and rest[0].line == at.line else ""
            return f"End the block of line {off.place.line} before line {at.line}, `{at.text}`{edit}"
        remove = f"Remove line {off.place.line}, `{off.place.text}`, dedent the lines inside it{unwrap(off.place)}"
        if isinstance(block, ast.With) and block.items[1:]:
            others = [each for each in block.items if body.text(each.context_expr) != off.text]
            head = ast.copy_location(ast.With(items=others, body=[], type_comment=None), block)
            edit = write(off.place, ast.unparse(head)) if others else ""
            remove = f"Remove {off.text} from line {off.place.line}{edit}"
        place, mark = Place(body.file, getattr(body.node, "lineno", 0), ""), "@torch.no_grad()"
        return f"{remove}, and {put_at(mark, 'above', place)}"


def waiting_generators(failure: Failure) -> Iterator[Waiting]:
    """Yield the blocks that generators have left open around the failing line: those that a variable holds, where they
    wait, and those that the loops around the line run."""
    for level in failure.users:
        if level.body is None or nearest_at(level.body, level.line) is False:
            return
        section = section_of(level)
        if section is not None:
            yield from () if torch.is_grad_enabled() else _held(level, level.body)
            yield from _iterated(section, level, level.body, is_inner=level is failure.user)


def waiting_tasks(failure: Failure) -> Iterator[Waiting]:
    """Yield the blocks in which other coroutines of the program wait, where the one that failed may have run."""
    if any(each.frame.f_code.co_flags & inspect.CO_COROUTINE for each in failure.users):
        own = {each.body.node for each in failure.users if each.body is not None}
        every = (body for file in user_files(failure) for body in functions(file) if body.node not in own)
        for body in every:
            yield from _open_blocks(body) if isinstance(body.node, AsyncFunctionDef) else ()


def _held(level: Level, body: Body) -> Iterator[Waiting]:
    read = (use.name for each in statements(body.node) for use in uses(each))
    for name in dict.fromkeys(read):
        held = level.value(name)
        if type(held) is GeneratorType and held.gi_frame is not None and not is_library(held.gi_code.co_filename):
            inner, line = function_at(held.gi_code), held.gi_frame.f_lineno
            yield from (each for each in _open_blocks(inner) if each.at.line <= line <= each.at.last) if inner else ()


def _iterated(section: Section, level: Level, body: Body, *, is_inner: bool) -> Iterator[Waiting]:
    made = assignments(body, level.receiver, before=level.line) if level.receiver else ()
    loops = [each for each in statements(body.node) if isinstance(each, ast.For)]
    for loop in (each for each in reversed(loops) if each.lineno < level.line <= (each.end_lineno or 0)):
        outside = made and (made[-1].line < loop.lineno or nearest_at(body, made[-1].line) is False)
        if is_inner and outside:
            return
        for generator in _generators(section, loop.iter):
            found = list(_open_blocks(generator.body))
            if len(found) == len(_waits(generator.body)) and all(is_sure(generator, each.off) for each in found):
                yield from (each._replace(meanwhile=body.place(loop)) for each in found)


def _open_blocks(body: Body) -> Iterator[Waiting]:
    """Yield the blocks of a function in which it waits; what a decorator disables, a yield enables."""
    for each in _waits(body):
        off = nearest_at(body, each.lineno)
        if off and not off.is_decorator:
            yield Waiting(off, body.place(each))


def _waits(body: Body) -> list[ast.stmt]:
    """The statements of a function at which it waits."""
    every = statements(body.node)
    return [e for e in every if isinstance(e, _HANDING_OVER) or any(isinstance(n, _WAITING) for n in expressions(e))]


def _generators(section: Section, iterated: ast.expr, depth: int = _DEPTH) -> Iterator[Section]:
    """Yield the user's generators that iterating over an expression runs: `batches(data)`, `enumerate(loader)`."""
    own = [each for each in _run_by(section, iterated) if _waits(each.body)] if depth else []
    for found in own:
        yield found
        for each in statements(found.body.node):
            parts = [each.iter] if isinstance(each, ast.For) else []
            parts += [node.value for node in expressions(each) if isinstance(node, ast.YieldFrom)]
            for part in parts:
                yield from _generators(found, part, depth - 1)
    if isinstance(iterated, ast.Call) and callee(iterated)[1] not in ("len", "range") and depth:
        for given in iterated.args:  # what goes through what it is given, as enumerate() does
            yield from _generators(section, given, depth - 1)


def _run_by(section: Section, node: ast.expr) -> Iterator[Section]:
    """Yield what a call of a function runs, and the `__iter__` of an object, of its class, of a loader's dataset."""
    if isinstance(node, ast.Call):
        called = called_function(section, node)
        if called is not None and not getattr(called.body.node, "decorator_list", ()):
            yield called
        return
    value = value_of(section, node)
    value = value.dataset if type(value) is DataLoader and not value.num_workers else value
    kind = value if is_class(value) else type(value)
    iterates = method(kind, "__iter__")
    body = None if iterates is None or is_library(iterates.__code__.co_filename) else function_at(iterates.__code__)
    if iterates is not None and body is not None:
        own, held = frozenset(iterates.__code__.co_varnames), held_by(iterates, None if value is kind else value)
        yield Section(body, (), held, iterates.__globals__, own=own)
