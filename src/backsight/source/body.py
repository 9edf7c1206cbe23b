"""The source text behind a frame: which function a code object is, which statement a line belongs to.

Everything is read from the text through `linecache` (so notebook cells and registered `exec` sources work too) and
from its syntax tree. Nothing is imported, evaluated or run. Where the text is missing, no longer fits the code object
or does not parse, the answer is None.
"""

from __future__ import annotations

import ast
import copy
import functools
import itertools
import linecache
import os
import re
import sys
import types
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from backsight.quiet import quietly
from backsight.source.cells import cell, other_cells
from backsight.source.coroutines import read_as_plain
from backsight.source.imports import (
    LIBRARIES,
    import_of_each,
    imported_by,
    library,
    loaded,
    meaning,
    note_meanings,
    starred,
)

Scope: TypeAlias = ast.Module | ast.FunctionDef | ast.ClassDef

Loop: TypeAlias = ast.For | ast.While

_Each = TypeVar("_Each")

SCOPES = (ast.FunctionDef, ast.ClassDef)
LOOPS = (ast.For, ast.While)

_WIDTH = 88

# Before Python 3.12 every comprehension has a code object of its own, and generator expressions still do.
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


@dataclass(frozen=True)
class Place:
    """A statement in the user's code.

    >>> str(Place("train.py", 41, "loss.backward()"))
    'train.py:41'
    """

    file: str
    line: int
    text: str
    column: int = field(default=0, compare=False, repr=False)
    end: int = field(default=0, compare=False, repr=False)
    """The last line of a statement over several; 0 where only the first is of interest."""
    seen: bool = field(default=False, compare=False, repr=False)
    """Whether a watch has noted that it ran; else it was found in a frame or in the text."""

    @property
    def position(self) -> tuple[int, int]:
        """Line and column, which tell the order of statements on one line: `loss.backward(); opt.step()`."""
        return self.line, self.column

    @property
    def last(self) -> int:
        return max(self.line, self.end)

    def __str__(self) -> str:
        return f"{short_path(self.file)}:{self.line}"


@dataclass(frozen=True)
class Body:
    """The function, class body or module that a code object was compiled from."""

    file: str
    node: Scope = field(repr=False)
    lines: tuple[str, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """What the function or class is called; empty for a module."""
        return getattr(self.node, "name", "")

    def place(self, node: ast.stmt | ast.expr, text: str | None = None) -> Place:
        """Where `node` stands; a compound statement is shown by its first line alone."""
        end = 0 if isinstance(node, ast.stmt) and is_compound(node) else node.end_lineno or 0
        return Place(self.file, node.lineno, self.text(node) if text is None else text, node.col_offset, end)

    def text(self, node: ast.stmt | ast.expr) -> str:
        """The source of `node` in one line: verbatim where it fits on one line, normalised where it does not."""
        if isinstance(node, ast.stmt) and is_compound(node):
            return one_line(_unparse(without_blocks(node)) or self._first_line(node))
        if node.lineno == node.end_lineno:
            return one_line(self._first_line(node))
        return one_line(_unparse(node) or self._first_line(node))

    def _first_line(self, node: ast.stmt | ast.expr) -> str:
        # Columns of the syntax tree count UTF-8 bytes.
        line = self.lines[node.lineno - 1].encode("utf-8", "replace")
        end = node.end_col_offset if node.lineno == node.end_lineno else None
        return line[node.col_offset : end].decode("utf-8", "replace")


def function_at(code: types.CodeType) -> Body | None:
    """The function, class body or module that `code` was compiled from; None for a text that does not fit.

    A lambda is a function that returns its expression; None where several on one line cannot be told apart.

    >>> body = function_at(frame.f_code)
    """
    lines = _lines(code.co_filename)
    if not lines:
        return None
    scopes = _scopes("".join(lines), _others(code.co_filename))
    name, line = code.co_name, code.co_firstlineno
    node: Scope | None
    if name == "<module>" or name.startswith("<cell line"):  # IPython renames the code object of a cell
        node = scopes.get(("<module>", 0))
    elif name == "<lambda>":
        node = _lambda(scopes, code)
    elif name in _COMPREHENSIONS:
        node = max((scope for scope in scopes.values() if _covers(scope, line)), key=_first, default=None)
    else:
        node = scopes.get((name, line))
    return None if node is None else Body(code.co_filename, node, lines)


def _lambda(scopes: _Scopes, code: types.CodeType) -> ast.FunctionDef | None:
    """The lambda that `code` was compiled from: the one on its line, which of several its instructions lie in."""
    found = scopes.lambdas.get(code.co_firstlineno, ())
    if len(found) > 1 and sys.version_info >= (3, 11):
        spans = [(line, start) for line, _, start, _ in code.co_positions() if line is not None and start is not None]
        spans = [(line, start) for line, start in spans if line and start]  # those of its beginning have column 0
        found = tuple(each for each in found if spans and begins(each.body[0]) <= min(spans) < _end(each.body[0]))
        found = found[-1:]  # the innermost: a lambda within another is found after it
    return only(found)


def as_function(node: ast.Lambda) -> ast.FunctionDef:
    """A lambda as the function that it stands for, which returns its expression."""
    returned = ast.copy_location(ast.Return(node.body), node.body)
    function = ast.FunctionDef(name="<lambda>", args=node.args, body=[returned], decorator_list=[])
    return ast.copy_location(function, node)


def body_around(file: str, line: int) -> Body | None:
    """The innermost function, class body or module of `file` that covers `line`; None where there is no source."""
    lines = _lines(file)
    scopes = _scopes("".join(lines), _others(file)) if lines else {}
    covering = [scope for scope in scopes.values() if _covers(scope, line)]
    return Body(file, max(covering, key=_first), lines) if covering else None


def functions(file: str) -> Iterator[Body]:
    """The module of a file, and every function in it."""
    lines = _lines(file)
    found = _scopes("".join(lines), _others(file)).values() if lines else ()
    for scope in {id(scope): scope for scope in found if not isinstance(scope, ast.ClassDef)}.values():
        yield Body(file, scope, lines)


def statement_at(body: Body | None, line: int, column: int | None = None) -> ast.stmt | None:
    """The innermost statement that covers `line`, nested functions included.

    Where several share the line, the one at `column` (in bytes, as the syntax tree counts), else the first.
    """
    found: ast.stmt | None = None
    block = body.node.body if body else []
    while statement := _covering(block, line, column):
        found = statement
        block = [child for _, inner in blocks(statement) for child in inner]
    return found


def read_at(place: Place | None) -> tuple[Body | None, ast.stmt | None]:
    """The function or module around a place, and the statement there; each None where it is not known."""
    body = body_around(place.file, place.line) if place is not None else None
    return body, statement_at(body, *place.position) if place is not None else None


def is_shared(body: Body | None, line: int) -> bool:
    """Whether several statements stand on a line, of which only a column tells the one that runs.

    `if` and what it does are two, `with` and what it does are not: hardly ever is it the block itself that matters.
    """
    every = (each for each in statements(body) if not isinstance(each, ast.With))
    return sum(each.lineno <= line <= _own_end(each) for each in every) > 1


def _own_end(statement: ast.stmt) -> int:
    """The last line of a statement; of a compound one the last before its blocks, or the one that they begin on too."""
    first = next((block[0] for _, block in blocks(statement)), None)
    return statement.end_lineno or statement.lineno if first is None else max(statement.lineno, first.lineno - 1)


def column_at(frame: types.FrameType) -> int | None:
    """The column of what a frame runs, in bytes; None where Python does not tell (before 3.11)."""
    return column_of(frame.f_code, frame.f_lasti, frame.f_lineno)


def column_of(code: types.CodeType, instruction: int, line: int) -> int | None:
    """The column of an instruction that stands on a line."""
    first, _, column, _ = _position_of(code, instruction)
    return column if first == line else None


def end_of(code: types.CodeType, instruction: int) -> tuple[int, int] | None:
    """The line and column at which the expression of an instruction ends; None where Python does not tell."""
    _, line, _, column = _position_of(code, instruction)
    return None if line is None or column is None else (line, column)


@functools.lru_cache(maxsize=4096)
def _position_of(code: types.CodeType, instruction: int) -> tuple[int | None, int | None, int | None, int | None]:
    """The first and last line and column of an instruction; all None before Python 3.11."""
    if sys.version_info >= (3, 11):
        return next(itertools.islice(code.co_positions(), instruction // 2, None), (None, None, None, None))
    return None, None, None, None


def expression_at(statement: ast.stmt, line: int, column: int | None = None) -> ast.stmt | ast.expr:
    """The part of a statement that runs at a line: the innermost lambda there, or a call that begins on a later line.

    The statement itself where there is no such part, or where the column would have to tell which, and is not known.
    """
    if is_compound(statement):
        return statement
    nodes = [each for each in ast.walk(statement) if isinstance(each, ast.Lambda | ast.Call)]
    lambdas = [each for each in nodes if isinstance(each, ast.Lambda) and each.lineno <= line <= (each.end_lineno or 0)]
    inner = [each for each in lambdas if column is not None and begins(each) <= (line, column) < _end(each)]
    if inner or lambdas:
        return inner[-1] if inner else lambdas[0] if len(lambdas) == 1 and column is None else statement
    return next((each for each in nodes if line == each.lineno > statement.lineno), statement)


def _covering(block: list[ast.stmt], line: int, column: int | None) -> ast.stmt | None:
    """The statement of a block that covers a line, by bisection: a flat script is one long block."""
    at, found = bisect_right(block, line, key=_first) - 1, None
    while at >= 0 and _covers(block[at], line):  # backwards: several may share the line
        if found is not None and column is not None and _end(block[at]) <= (line, column):
            break
        if column is None or _first(block[at]) < line or begins(block[at]) <= (line, column):
            found = block[at]
        at -= 1
    return found


def statements(scope: Scope | Body | None) -> Iterator[ast.stmt]:
    """Every statement of `scope` in source order, without those of the functions and classes defined in it; none of
    one that cannot be read."""
    scope = scope.node if isinstance(scope, Body) else scope
    stack: list[ast.stmt] = list(reversed(scope.body)) if scope is not None else []
    while stack:
        statement = stack.pop()
        yield statement
        if not isinstance(statement, SCOPES):
            stack.extend(reversed([child for _, block in blocks(statement) for child in block]))


def blocks(statement: ast.stmt) -> Iterator[tuple[str, list[ast.stmt]]]:
    """The blocks of a compound statement in source order, each with a label that tells it from its siblings."""
    if isinstance(statement, ast.Match):
        for number, case in enumerate(statement.cases):
            yield f"case {number}", case.body
        return
    if body := getattr(statement, "body", None):
        yield "body", body
    for number, handler in enumerate(getattr(statement, "handlers", ())):
        yield f"except {number}", handler.body
    for label in ("orelse", "finalbody"):
        if block := getattr(statement, label, None):
            yield label, block


def blocks_of(body: Body | None) -> Iterator[list[ast.stmt]]:
    """The block of a function, and those of its statements; none of one that cannot be read."""
    if body is not None:
        yield body.node.body
    yield from (block for each in statements(body) for _, block in blocks(each))


def block_of(body: Body | None, statement: ast.stmt) -> list[ast.stmt]:
    """The block that a statement stands in; empty where none has it."""
    return next((block for block in blocks_of(body) if any(each is statement for each in block)), [])


def is_compound(statement: ast.stmt) -> bool:
    """Whether a statement has blocks."""
    return any(True for _ in blocks(statement))


def covers(node: ast.stmt, line: int) -> bool:
    """Whether a statement stands on a line, or has it inside."""
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def is_stored(node: ast.AST) -> bool:
    """Whether an expression is what is assigned to."""
    return isinstance(getattr(node, "ctx", None), ast.Store)


def begins(node: ast.stmt | ast.expr) -> tuple[int, int]:
    """The line and column at which a node begins."""
    return node.lineno, node.col_offset


def expressions(statement: ast.stmt | None) -> Iterator[ast.expr]:
    """Every expression of the statement itself, outermost first; those of its blocks belong to other statements."""
    if statement is None:
        return
    # The statement keeps them: a file is asked for them statement by statement, by each rule in each audit.
    found: tuple[ast.expr, ...] | None = vars(statement).get(_EXPRESSIONS)
    if found is None:
        found = tuple(_expressions(statement))
        setattr(statement, _EXPRESSIONS, found)
    yield from found


_EXPRESSIONS = "_backsight_expressions"


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.expr):
            yield node
        stack.extend(reversed([child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]))


def calls_in(statement: ast.stmt | None) -> Iterator[ast.Call]:
    """Every call of the statement itself, outermost first."""
    return (node for node in expressions(statement) if isinstance(node, ast.Call))


def statements_of(*files: str) -> Iterator[tuple[Body, ast.stmt]]:
    """Every statement of these files, each with the function or module that it stands in."""
    return ((body, statement) for file in files for body in functions(file) for statement in statements(body.node))


def calls_of(*files: str) -> Iterator[tuple[Body, ast.stmt, ast.Call]]:
    """Every call in these files, with the statement and the function or module that it stands in."""
    return ((body, statement, call) for body, statement in statements_of(*files) for call in calls_in(statement))


def callers(body: Body) -> Iterator[tuple[Body, ast.stmt, ast.Call]]:
    """Every call in the file that is of a function by this name, as in `calls_of`; none of a module."""
    every = calls_of(body.file) if body.name else ()
    return (each for each in every if callee(each[2])[1] == body.name)


def dotted(node: ast.AST | None) -> str | None:
    """`"self.hidden"` for a name or a chain of attributes on one; None for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def callee(call: ast.Call) -> tuple[ast.expr | None, str]:
    """What is called, as receiver and name: `(x, "add_")` for `x.add_(1)`, `(None, "print")` for `print()`.

    The name is the one that it was imported by: "checkpoint" for `ckpt(f, x)` after `import checkpoint as ckpt`.
    """
    if isinstance(call.func, ast.Attribute):
        return call.func.value, call.func.attr
    return None, last_name(call.func)


def given_to(call: ast.Call) -> list[ast.expr]:
    """What a call computes with: `x` and `1` of `x.argmax(1)`, of `torch.argmax(x, 1)` and of an imported `argmax`."""
    receiver, _ = callee(call)
    return [*call.args] if receiver is None or library(call.func) else [receiver, *call.args]


def handed(body: Body, call: ast.Call) -> dict[str, ast.expr]:
    """What a call gives the parameters of a function of this text: `{"self": trainer, "loss": x.mean()}` for
    `trainer.learn(x.mean())`."""
    taken = body.node.args if isinstance(body.node, ast.FunctionDef) else ast.arguments([], [], None, [], [], None, [])
    names = [each.arg for each in (*taken.posonlyargs, *taken.args)]
    receiver = callee(call)[0]
    own = [receiver] if receiver is not None and names[:1] == ["self"] else []
    by_name = {each.arg: each.value for each in call.keywords if each.arg is not None}
    return {**dict(zip(names, [*own, *call.args], strict=False)), **by_name}


def last_name(node: ast.expr) -> str:
    """The last part of what a name or a chain of attributes means: "no_grad" for `torch.no_grad`; empty for others."""
    return (meaning(node) or dotted(node) or "").rpartition(".")[2]


def keyword(call: ast.Call, *names: str) -> ast.expr | None:
    """The value of the first keyword argument of `call` that bears one of `names`."""
    return next((each.value for each in call.keywords if each.arg in names), None)


def is_constant(node: ast.AST | None, value: bool | None) -> bool:
    """Whether `node` is written as `True` (or `False`, or `None`); 1 and 0 do not count."""
    return isinstance(node, ast.Constant) and node.value is value


def is_text(node: ast.expr | None, text: str) -> bool:
    """Whether a node is this string."""
    return isinstance(node, ast.Constant) and node.value == text


def parsed(text: str) -> ast.expr | None:
    """The syntax tree of an expression; None for a statement, for no text and for one that was shortened."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None


def only(every: Iterable[_Each]) -> _Each | None:
    """The one element that there is; None of none, and of several."""
    found = list(itertools.islice(every, 2))
    return found[0] if len(found) == 1 else None


def one_line(text: str) -> str:
    """`text` without line breaks and control characters, shortened: it may be printed to a terminal."""
    text = "".join(char if char.isprintable() else " " for char in text).strip()
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1].rstrip() + "…"


def _lines(file: str) -> tuple[str, ...]:
    try:
        linecache.checkcache(file)
        return tuple(linecache.getlines(file))
    except (OSError, UnicodeError, SyntaxError, ValueError):  # unreadable, not text, a null byte in the name
        return ()


class _Scopes(dict[tuple[str, int], Scope]):
    """Every scope by name and first line: of its first decorator (as `co_firstlineno` has it) and of its `def`."""

    @functools.cached_property
    def lambdas(self) -> dict[int, tuple[ast.FunctionDef, ...]]:
        """Every lambda of the same tree by its line, each as the function that it stands for."""
        module, found = self.get(("<module>", 0)), dict[int, tuple[ast.FunctionDef, ...]]()
        for node in ast.walk(module) if module else ():
            if isinstance(node, ast.Lambda):
                found[node.lineno] = (*found.get(node.lineno, ()), as_function(node))
        return found


@functools.lru_cache(maxsize=128)  # nodes are told by identity: a file that is read again is another
def _scopes(source: str, others: tuple[str, ...]) -> _Scopes:
    tree = _tree(source)
    if tree is None:
        return _Scopes()
    note_meanings(tree, {name: means for each in reversed(others) for name, means in _imports(each).items()})
    found = _Scopes({("<module>", 0): tree})
    stack: list[Scope] = [tree]
    while stack:
        for statement in statements(stack.pop()):
            if isinstance(statement, SCOPES):
                found.setdefault((statement.name, _first(statement)), statement)
                found.setdefault((statement.name, statement.lineno), statement)
                stack.append(statement)
    return found


def _tree(source: str) -> ast.Module | None:
    try:
        with quietly(module="<unknown>"):  # the user has seen the warnings about this text once already
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested too deeply for the parser
        return None
    if "await" in source or "async" in source:
        read_as_plain(tree)
    return tree


def _others(file: str) -> tuple[str, ...]:
    """The texts whose imports hold in a file too: a notebook's other cells, and what is imported with a star."""
    return *("".join(_lines(each)) for each in other_cells(file)), *_starred(file, {file})


def _starred(file: str, seen: set[str]) -> Iterator[str]:
    """For each `from common import *`, the last first: the text of the program's module, and an import of each name."""
    for module in reversed(starred("".join(_lines(file)))):
        held = loaded(module, file)
        own = held.get("__file__") if module.partition(".")[0] not in LIBRARIES else None
        if type(own) is str and own not in seen:
            seen.add(own)
            yield "".join(_lines(own))
            yield from _starred(own, seen)
        if held:
            yield import_of_each(module, held)


def imported_in(file: str) -> frozenset[str]:
    """The names that a file imports, itself or with a star, or that a notebook's other cells do."""
    return frozenset(name for text in ("".join(_lines(file)), *_others(file)) for name in _imports(text))


@functools.lru_cache(maxsize=256)
def _imports(source: str) -> dict[str, str]:
    tree = _tree(source)
    return imported_by(tree) if tree is not None else {}


def _first(node: Scope | ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", None)
    return min(each.lineno for each in decorators) if decorators else getattr(node, "lineno", 0)


def _end(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _covers(node: Scope | ast.stmt, line: int) -> bool:
    return isinstance(node, ast.Module) or _first(node) <= line <= (node.end_lineno or node.lineno)


def without_blocks(statement: ast.stmt) -> ast.stmt:
    header = copy.copy(statement)
    vars(header).pop(_EXPRESSIONS, None)
    for label in ("body", "handlers", "orelse", "finalbody", "cases", "decorator_list"):
        if hasattr(header, label):
            setattr(header, label, [])
    return header


_IN_PARENTHESES = re.compile(r"((?:async )?for )\((.*?)\) in ")


def _unparse(node: ast.AST) -> str:
    try:
        text = ast.unparse(node)
    except (RecursionError, ValueError):  # an expression of some thousand operands
        return ""
    if sys.version_info < (3, 11) and isinstance(node, ast.For):  # which writes `for (x, y) in loader:`
        return _IN_PARENTHESES.sub(r"\1\2 in ", text, count=1)
    return text


def short_path(file: str) -> str:
    """Relative to the working directory inside it, else the last part; `__init__.py` keeps its folder; `In[3]`."""
    if named := cell(file):
        return named
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):  # the working directory is gone; another drive on Windows
        relative = os.pardir
    if file.startswith("<") or not relative.startswith(os.pardir):
        return one_line(file if file.startswith("<") else relative)
    folder, base = os.path.split(file)
    return one_line(os.path.join(os.path.basename(folder), base) if base.startswith("__") else base)
