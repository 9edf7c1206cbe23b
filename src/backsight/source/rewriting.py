"""A statement with some of its parts written anew, as a person would edit it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping

from backsight.source.body import Body, callee, calls_in, is_compound, is_stored, keyword, parsed, without_blocks

_WIDEST = 160


def rewritten(body: Body, statement: ast.stmt, changes: Mapping[ast.expr, str]) -> str:
    """Return a statement with each of these expressions replaced by a text; empty where that would be too long to read.

    >>> rewritten(body, statement, {call: "output"})      # error = output.detach() - target
    'error = output - target'

    Of a compound statement it returns the first line alone, of one that shares its line with others, as the body of a
    lambda does, all of that line. A target stays where what replaces it cannot be assigned to.
    """
    changes = {node: new for node, new in changes.items() if not is_stored(node) or isinstance(parsed(new), _TARGETS)}
    if is_compound(statement):
        text = unparsed(without_blocks(statement), changes)
    elif statement.lineno == statement.end_lineno:
        text = _in_line(body.lines[statement.lineno - 1], statement, changes)
    else:
        text = unparsed(statement, changes)
    return text if len(text) <= _WIDEST else ""


_TARGETS = (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List)


def with_flag(body: Body | None, statement: ast.stmt | None, call: ast.Call, flag: str, value: str = "True") -> str:
    """A statement with a keyword of one of its calls, `create_graph=True`; empty where that would be too long."""
    if body is None or statement is None:
        return ""
    given, text = keyword(call, flag), body.text(call)
    if given is not None:
        return rewritten(body, statement, {given: value})
    if unpacked := [each.value for each in call.keywords if each.arg is None]:  # which may give the keyword, too
        merged = f"{{**{body.text(unpacked[-1])}, {flag!r}: {value}}}"
        return rewritten(body, statement, {unpacked[-1]: merged}) if len(unpacked) == 1 else ""
    inside = text[:-1].rstrip(", ")
    new = f"{inside}{'' if inside.endswith('(') else ', '}{flag}={value})"
    return rewritten(body, statement, {call: new}) if "…" not in text else ""


def without_request(body: Body, statement: ast.stmt) -> str:
    """A statement that makes a tensor, without asking for its gradient; empty for one that only asks."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return ""
    for call in calls_in(statement):
        kept = [each for each in call.keywords if each.arg != "requires_grad"]
        if len(kept) < len(call.keywords):
            return rewritten(body, statement, {call: ast.unparse(ast.Call(call.func, call.args, kept))})
        receiver, method = callee(call)
        if method == "requires_grad_" and receiver is not None:
            return rewritten(body, statement, {call: body.text(receiver)})
    return ""


def simple(expression: str) -> str:
    """An expression that a method can be called on: in brackets unless it is a name, a call or a subscript."""
    plain = isinstance(parsed(expression), ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return expression if plain else f"({expression})"


def rewritten_line(body: Body, node: ast.expr | ast.stmt, new: str) -> str:
    """Return the one line that has an expression, which is part of a longer statement, or one of several statements,
    with a text in its place; empty where the expression itself goes on."""
    if node.end_lineno != node.lineno:
        return ""
    data = body.lines[node.lineno - 1].encode("utf-8", "replace")
    return (data[: node.col_offset] + new.encode() + data[node.end_col_offset :]).decode("utf-8", "replace").strip()


def _in_line(line: str, statement: ast.stmt, changes: Mapping[ast.expr, str]) -> str:
    data = line.encode("utf-8", "replace")  # columns of the syntax tree count bytes
    at, parts = 0, list[bytes]()
    for node, new in sorted(changes.items(), key=lambda each: each[0].col_offset):
        if node.col_offset < at:  # inside of another one
            continue
        parts += [data[at : node.col_offset], new.encode()]
        at = node.end_col_offset or at
    rest = data[statement.end_col_offset :]
    parts.append(data[at : statement.end_col_offset] if rest.strip()[:1] == b"#" else data[at:])
    return b"".join(parts).decode("utf-8", "replace").strip()


def unparsed(statement: ast.stmt, changes: Mapping[ast.expr, str]) -> str:
    """Return a statement with its blocks, as Python writes it, with each of these expressions replaced."""
    try:
        memo = {id(node): ast.parse(new, mode="eval").body for node, new in changes.items()}
        return ast.unparse(copy.deepcopy(statement, memo))
    except (SyntaxError, ValueError, RecursionError):
        return ""
