"""A variable that was taken for another one: what the loss should read is never read, and what it reads is no result of
what is trained."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch

from backsight.naming import search
from backsight.source import Body, Place, read_at, statement_at
from backsight.source.bindings import assignments, parameters_of
from backsight.source.body import dotted, expressions, functions, statements
from backsight.tape import no_torch_function
from backsight.tracing import Met

_DEEPEST = 16


class Mistaken(NamedTuple):
    """The statement that reads `read`, and what it would be with `unused`, which another statement computes in vain."""

    place: Place
    read: str
    unused: str
    computed: Place
    mended: str


def mistaken(met: Met) -> Mistaken | None:
    """Return which variable of the function was taken for another one in a term that is a constant.

    The other one was computed with what is trained, nothing reads it, and it has the same shape. The statement is the
    first on the way from the term that reads what the term is made of.
    """
    body, statement = read_at(met.line.place)
    if body is None or statement is None:
        return None
    tensors = _variables(met.line.file, body)
    unused = [name for name in _never_read(body) if (held := tensors.get(name)) is not None and held.requires_grad]
    if len(unused) != 1 or met.term < 0:
        return None
    ((name,), made) = unused, assignments(body, unused[0])
    computed = statement_at(body, *made[0].position) if len(made) == 1 else None
    if computed is None:
        return None
    beside = {node.id for node in expressions(computed) if isinstance(node, ast.Name)}
    alike = {
        each
        for each, held in tensors.items()
        if each != name and not held.requires_grad and held.shape == tensors[name].shape and each not in beside
    }
    found = _reading(body, met.operands[met.term], statement, alike)
    if found is None:
        return None
    reader, read = found
    mended = _first_replaced(body, reader, read, name)
    return Mistaken(body.place(reader), read, name, made[0], mended) if mended else None


def _variables(file: str, body: Body) -> Mapping[str, torch.Tensor]:
    """Return the tensors that variables of a running function hold."""
    first, last = getattr(body.node, "lineno", 0), getattr(body.node, "end_lineno", None) or 2**31
    with no_torch_function():
        return {
            name.path: tensor
            for tensor, name in search((), collect=(torch.Tensor,)).found
            if isinstance(tensor, torch.Tensor) and name.path.isidentifier()
            if name.file == file and first <= (name.line or 0) <= last
        }


def _never_read(body: Body) -> Iterator[str]:
    """Yield the variables of a function that a call gives a value, and that nothing reads, not even inside of it."""
    inside = [body, *(each for each in functions(body.file) if each.node is not body.node and _is_around(body, each))]
    read = {
        node.id
        for each in inside
        for statement in statements(each.node)
        for node in expressions(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    for statement in statements(body.node):
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call) and len(statement.targets) == 1:
            name = dotted(statement.targets[0]) or ""
            if name.isidentifier() and name not in read and name not in parameters_of(body.node):
                yield name


def _is_around(body: Body, other: Body) -> bool:
    first, last = getattr(body.node, "lineno", 0), getattr(body.node, "end_lineno", None) or 2**31
    return first <= getattr(other.node, "lineno", -1) <= last


def _reading(body: Body, term: str, statement: ast.stmt, alike: set[str]) -> tuple[ast.stmt, str] | None:
    """Return the statement furthest from a term, and the variable of `alike` that it reads, by way of the first such
    operand each time: the first operand of a loss is the prediction."""
    try:
        read = _names(ast.parse(term, mode="eval"))
    except SyntaxError:
        return None
    found, reader = None, statement
    for _ in range(_DEEPEST):
        name = next((each for each in read if each in alike), None)
        if name is not None:
            found = reader, name
            if read.count(name) > 1:  # it is compared with itself
                return found
        else:
            name = next((each for each in read if assignments(body, each, before=reader.lineno)), None)
            if found is not None:
                return found
        places = assignments(body, name, before=reader.lineno) if name is not None else ()
        made = statement_at(body, *places[-1].position) if places else None
        if not isinstance(made, ast.Assign):
            return found
        reader, read = made, _names(made.value)
    return found


def _names(node: ast.AST) -> list[str]:
    """Return the variables that an expression reads, in the order of its text."""
    found = [n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    return [n.id for n in sorted(found, key=lambda n: (n.lineno, n.col_offset))]


def _first_replaced(body: Body, statement: ast.stmt, read: str, other: str) -> str:
    """Return a statement of one line with another variable where it reads one for the first time."""
    text, first = body.place(statement).text, statement.lineno
    nodes = [n for n in expressions(statement) if isinstance(n, ast.Name) and n.id == read and n.lineno == first]
    if not nodes or statement.end_lineno != first or not text.isascii() or text.endswith("…"):
        return ""
    at = min(n.col_offset for n in nodes) - statement.col_offset
    return text[:at] + other + text[at + len(read) :] if text[at:].startswith(read) else ""
