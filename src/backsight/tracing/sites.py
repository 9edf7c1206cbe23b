"""Sites: the places in the program's code that were met, each once, by number; told as lines only when asked."""

from __future__ import annotations

import ast
import functools
import itertools
from dataclasses import dataclass
from inspect import CO_NESTED
from types import CodeType, FrameType
from typing import Any

from backsight.naming.roots import qualname
from backsight.source import Body, function_at, statement_at
from backsight.source.body import body_around
from backsight.source.imports import library
from backsight.tape import Living
from backsight.tracing.facts import Line, Operand
from backsight.tracing.program import innermost, is_programs, known

MOST = 50_000
"""Sites that are kept; beyond that the half that was met first is forgotten."""

MOST_WAYS = 4096
"""Ways to a call that are told apart; those that are met later are not known."""

_MOST_CALLERS = 16
"""Callers that are noted of one way."""

_MOST_WALKS = 16
"""Calls of one site, between two backwards, that are asked how they were reached."""


@dataclass(frozen=True)
class Site:
    """A line of a code object, or (`lasti` is not -1) an instruction: then also what was called, and through what."""

    code: CodeType
    line: int
    lasti: int = -1
    op: str = ""
    via: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """An instruction of `code` whose calls of `function` have been looked at often enough: of those that follow, only
    the nodes are still noted, at `site`, unless tensors are marked of which there is something to say there.

    `passing` is the code in which the call is made. The code is held so that its id stays its own.
    """

    code: CodeType
    function: Any
    site: int
    passing: CodeType
    marks: tuple[Living[Any], ...]


class Sites:
    """Numbers for sites. Code objects are held, so that none is taken for another."""

    def __init__(self) -> None:
        self.places: dict[tuple[int, int], Place] = {}
        """By the id of a code and an instruction in it; read at every call."""
        self.results: dict[int, set[str]] = {}
        """The classes of the nodes that the results of the first calls at a site have."""
        self._numbers: dict[tuple[int, int, str], int] = {}
        self._places: dict[tuple[int, tuple[int, ...], str], int] = {}
        self._sites: dict[int, Site] = {}
        self._next = 1
        self._ways: dict[tuple[tuple[int, int], ...], int] = {}
        self._callers: dict[int, tuple[Site, ...]] = {}
        self._next_way = itertools.count(1)
        self._walks: dict[int, int] = {}

    def of_line(self, code: CodeType, line: int) -> int:
        """Return the number of a line."""
        key = (id(code), line, "")
        return self._numbers.get(key) or self._add(key, Site(code, line))

    def of_call(self, frame: FrameType, op: str, caller: FrameType | None) -> int:
        """Return the number of the call of `op` that the program's `frame` is making, through its `caller`."""
        key = (id(frame.f_code), -2 - frame.f_lasti, op)
        found = self._numbers.get(key)
        if found is None:
            site = Site(frame.f_code, frame.f_lineno, frame.f_lasti, op, _via(frame, caller))
            # Once it is specialised, a call may be made by another instruction of the same place.
            place = (id(frame.f_code), positions(site), op)
            found = self._numbers[key] = self._places.get(place) or self._add(key, site)
            self._places[place] = found
        return found

    def way_to(self, site: int, frame: FrameType | None) -> int:
        """Return the number of the way by which a call at `site` was reached: what runs in the program's frames around
        its `frame`. No frame is held.

        0 where it is not known: only the first calls of each site since the last backward are looked at, so that this
        costs nothing over a long evaluation.
        """
        walks = self._walks.get(site, 0)
        if frame is None or walks >= _MOST_WALKS:
            return 0
        self._walks[site] = walks + 1
        key: list[tuple[int, int]] = []
        get, here = known.get, frame.f_back
        while here is not None and len(key) < _MOST_CALLERS:
            code = here.f_code
            found = get(code.co_filename)
            if found or (found is None and is_programs(here)):
                key.append((id(code), here.f_lasti))
            here = here.f_back
        way = self._ways.get(tuple(key), 0)
        return way if way or not key or len(self._callers) >= MOST_WAYS else self._add_way(tuple(key), frame)

    def _add_way(self, key: tuple[tuple[int, int], ...], frame: FrameType) -> int:
        sites: list[Site] = []
        here = innermost(frame.f_back)
        while here is not None and len(sites) < len(key):
            sites.append(Site(here.f_code, here.f_lineno or 0, here.f_lasti))
            here = innermost(here.f_back)
        way = next(self._next_way)
        self._callers[way] = tuple(sites)
        self._ways[key] = way
        return way

    def walk_again(self) -> None:
        """Look anew at how calls are reached."""
        self._walks.clear()

    def callers(self, way: int) -> tuple[Line, ...]:
        """Return the lines that were running around a call that was reached by this way, the innermost first."""
        return tuple(map(line_of, self._callers.get(way, ())))

    def _add(self, key: tuple[int, int, str], site: Site) -> int:
        if len(self._sites) >= MOST:
            for number in list(itertools.islice(self._sites, MOST // 2)):
                del self._sites[number]
            self._numbers = {k: n for k, n in self._numbers.items() if n in self._sites}
            self._places = {k: n for k, n in self._places.items() if n in self._sites}
            self.places.clear()
        number = self._numbers[key] = self._next
        self._sites[number] = site
        self._next += 1
        return number

    def get(self, number: int) -> Site | None:
        """Return the site with this number; None if it is forgotten, or none."""
        return self._sites.get(number)

    def line(self, number: int) -> Line | None:
        """Return the site with this number as a line of the program's source."""
        site = self._sites.get(number)
        return None if site is None else line_of(site)

    def operands(self, number: int) -> tuple[Operand, ...]:
        """Return how the program wrote what the call at this site is given."""
        site = self._sites.get(number)
        return () if site is None else operands_of(site)


_WRAPPERS = (
    "Module._", "_wrapped_call_impl", "_call_impl", "handle_torch_function", "redispatch_function", "Function.apply",
)  # fmt: skip
"""What is around every forward; the forward is what people know. Python 3.10 does not tell the class."""


def _via(frame: FrameType, caller: FrameType | None) -> str:
    """Return PyTorch's function through which `frame` called, nearest to it, if there is one: `Linear.forward`."""
    nearest = ""
    while caller is not None and caller is not frame:
        name = qualname(caller.f_code)
        # Of what is around every forward, the forward is what people know.
        if not name.startswith(_WRAPPERS) and not caller.f_code.co_flags & CO_NESTED:
            nearest = name
        caller = caller.f_back
    return nearest


def line_of(site: Site) -> Line:
    """Tell a site as a line, with the source of the very expression where the instruction is known."""
    return _line_in(site.code.co_filename, site)


@functools.lru_cache(maxsize=4096)
def _line_in(file: str, site: Site) -> Line:  # by its file, as equal functions of two files have equal code
    function = qualname(site.code)
    body = _body(site)
    line, end, column, end_column = positions(site)
    statement = statement_at(body, line, column if column >= 0 else None) if body else None
    text = body.text(statement) if body and statement else ""
    node = _expression(statement, line, end, column, end_column) if statement else None
    segment = "" if body is None or node is None else body.text(node)
    if column < 0 and isinstance(statement, ast.stmt):
        end = _end_of_header(statement)
    return Line(file, line, max(end, line), function, segment, text, column, end_column)


def positions(site: Site) -> tuple[int, int, int, int]:
    """Return line, last line, and the columns (-1 where not known) of a site."""
    table = getattr(site.code, "co_positions", None)  # Python 3.11 and later
    if site.lasti >= 0 and table is not None:
        line, end, column, end_column = next(itertools.islice(table(), site.lasti // 2, None), (None,) * 4)
        if line is not None and end is not None and column is not None and end_column is not None:
            return line, end, column, end_column
    return site.line, site.line, -1, -1


def _end_of_header(statement: ast.stmt) -> int:
    """Return the last line of a simple statement; of a compound one, that before its block."""
    block = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not block:
        return statement.end_lineno or statement.lineno
    first = block[0]
    return max(statement.lineno, getattr(first, "lineno", statement.lineno + 1) - 1)


def _expression(statement: ast.stmt, line: int, end: int, column: int, end_column: int) -> ast.expr | ast.stmt | None:
    """Return the smallest expression of a statement that ends at the one position and covers the other.

    Of a chain of methods over several lines, the interpreter's positions begin at the last.
    """
    found: ast.expr | ast.stmt | None = None
    for node in ast.walk(statement):
        if isinstance(node, (ast.expr, ast.stmt)) and (node.end_lineno, node.end_col_offset) == (end, end_column):
            covers = (node.lineno, node.col_offset) <= (line, column)
            if covers and (found is None or (node.lineno, node.col_offset) >= (found.lineno, found.col_offset)):
                found = node
    return found


@functools.lru_cache(maxsize=4096)
def operands_of(site: Site) -> tuple[Operand, ...]:
    """Return the operands of the call at a site, in the order of its arguments, as the source writes them."""
    body = _body(site)
    return () if body is None else tuple(Operand(body.text(each), at) for at, each in _parts(node_of(site), site))


def node_of(site: Site) -> ast.expr | ast.stmt | None:
    """Return the expression at a site, where the instruction is known."""
    body = _body(site)
    line, end, column, end_column = positions(site)
    statement = statement_at(body, line, column) if body is not None and column >= 0 else None
    return _expression(statement, line, end, column, end_column) if statement else None


def _body(site: Site) -> Body | None:
    return function_at(site.code) or body_around(site.code.co_filename, site.line)


def _parts(node: ast.AST | None, site: Site) -> list[tuple[int | str, ast.expr]]:
    match node:
        case ast.BinOp(left=left, right=right):
            return list(enumerate((right, left) if site.op.startswith("__r") else (left, right)))
        case ast.Compare(left=left, comparators=[right]):
            return [(0, left), (1, right)]
        case ast.UnaryOp(operand=operand):
            return [(0, operand)]
        case ast.AugAssign(target=target, value=value):
            return [(0, target), (1, value)]
        case ast.Subscript(value=value, slice=index):
            return [(0, value), (1, index)]
        case ast.Assign(targets=[ast.Subscript(value=held, slice=index)], value=value):
            return [(0, held), (1, index), (2, value)]
        case ast.Attribute(value=value):
            return [(0, value)]
        case ast.Call():
            return _arguments(node, site)
    return []


def _arguments(call: ast.Call, site: Site) -> list[tuple[int | str, ast.expr]]:
    """Return the arguments of a call; of a method of a tensor, the tensor is the first."""
    given: list[ast.expr] = list(call.args)
    if isinstance(call.func, ast.Attribute) and not site.via and call.func.attr == site.op.split(".")[-1]:
        root = call.func.value
        if not library(root):
            given.insert(0, root)
    named = [(each.arg, each.value) for each in call.keywords if each.arg is not None]
    return [*enumerate(given), *named]
