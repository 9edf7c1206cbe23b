"""Edits that create an optimizer elsewhere, or of other parameters."""

from __future__ import annotations

import ast

from backsight.diagnosis.amending import block_of, is_known
from backsight.source import Place, read_at
from backsight.source.bindings import bound, parameters_of, uses
from backsight.source.body import LOOPS, body_around, statements
from backsight.source.edits import move, put, remove
from backsight.source.rewriting import rewritten


def created_below(built: Place, last: Place, code: str) -> str:
    """Create an optimizer further down in its function, by a statement; nothing for one that was shortened."""
    body, statement = read_at(built)
    other = body_around(last.file, last.line)
    if body is None or other is None or body.node is not other.node or not code or "…" in code:
        return ""
    beside = any(each is statement for each in body.node.body) and read_at(last)[1] in body.node.body
    return f"{put(code, 'beside', last)}{remove(built)}" if beside else ""


def given_anew(built: Place, given: str) -> str:
    """Return the statement that makes an optimizer with other parameters; empty where it is not a call alone."""
    body, statement = read_at(built)
    value = statement.value if isinstance(statement, ast.Assign) else None
    if body is None or statement is None or not isinstance(value, ast.Call) or not value.args:
        return ""
    return rewritten(body, statement, {value.args[0]: given}) if is_known(given, built) else ""


def given_too(statement: str, name: str) -> str:
    """The statement that makes an optimizer of `net.parameters()` or a list, with this parameter; else empty.

    >>> given_too("optimizer = SGD(net.parameters(), lr=0.1)", "delta")
    'optimizer = SGD([*net.parameters(), delta], lr=0.1)'
    """
    try:
        tree = ast.parse(statement)
    except SyntaxError:  # the source cannot be read
        return ""
    match tree.body:
        case [ast.Assign(value=ast.Call(args=[given, *_]))]:
            text = ast.get_source_segment(statement, given) or ""
            if (
                isinstance(given, ast.Call)
                and isinstance(given.func, ast.Attribute)
                and given.func.attr == "parameters"
            ):
                return statement.replace(text, f"[*{text}, {name}]", 1)
            if isinstance(given, ast.List) and given.elts and isinstance(given.elts[-1], ast.Name | ast.Starred):
                return statement.replace(text, f"{text[:-1].rstrip(', ')}, {name}]", 1)
    return ""


def above_loops(made: Place | None) -> str:
    """Move the statement that makes an optimizer above the loops around it, or above the function that is called in
    one, if nothing in there makes what it needs."""
    body, statement = read_at(made)
    if body is None or statement is None or made is None or len(block_of(body, statement)) < 2:
        return ""
    loops = (s for s in statements(body.node) if isinstance(s, LOOPS))
    outer: ast.AST | None = next((s for s in loops if s.lineno < made.line <= (s.end_lineno or 0)), None)
    given = frozenset[str]()
    if outer is None:
        module = body_around(body.file, 0)
        is_global = module is not None and any(each is body.node for each in module.node.body)
        outer, given = (body.node, parameters_of(body.node)) if is_global else (None, given)
    if not isinstance(outer, ast.stmt):
        return ""
    others = [s for s in statements(body.node) if s is not statement and outer.lineno <= s.lineno]
    inside = {name for s in others if s.lineno <= (outer.end_lineno or 0) for name in bound(s)} | given
    needed = {use.name.split(".")[0] for use in uses(statement)}
    return "" if inside & needed else str(move(made, "above", body.place(outer)))
