"""Edits for fixes that name an expression: the statement around it, with that written anew.

    f"Pass {new} in place of {old}{swapped(line, {old: new})}."

Each function gives the marks of edits, to be formatted into the fix; no mark where there is no place for them.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence

from backsight.diagnosis.program import loops_around
from backsight.source import Body, Place, only, read_at, statement_at
from backsight.source.bindings import assigned, bound, parameters_of, uses
from backsight.source.body import (
    block_of,
    body_around,
    callee,
    calls_in,
    dotted,
    expressions,
    functions,
    given_to,
    last_name,
    statements,
    statements_of,
)
from backsight.source.edits import importing, move, put, remove, write
from backsight.source.imports import library
from backsight.source.rewriting import rewritten, simple
from backsight.tracing import Line

At = Place | Line


def written(at: Place | None, code: str) -> str:
    """Write `code` instead of a statement; nothing where it was shortened to be read."""
    if at is None or not code or "…" in code or not parses(code):
        return ""
    body, statement = read_at(at)
    if body is not None and statement is not None and _is_beside_another(body, statement):
        if "\n" in code:
            return ""
        if len(ast.parse(code).body) == 1:  # else it is all of the line
            line = body.lines[statement.lineno - 1].encode()
            code = (line[: statement.col_offset] + code.encode() + line[statement.end_col_offset :]).decode().strip()
    return str(write(at, code))


def added(code: str, where: str, at: Place | None) -> str:
    """Put `code` above or below a statement, or at the end of its block, if all that it reads is known there."""
    inside = Place(at.file, at.line + 1, "") if at is not None and where == "end" else at
    if at is None or inside is None or "…" in code or not parses(code) or not is_known(code, inside):
        return ""
    return str(put(code, where, at))  # type: ignore[arg-type]  # a place to put it


def instead(body: Body | None, statement: ast.stmt | None, changes: Mapping[ast.expr, str]) -> str:
    """Write a statement with some of its expressions replaced."""
    if body is None or statement is None:
        return ""
    fitting = {node: _fitting(body, statement, node, new) for node, new in changes.items()}
    new = rewritten(body, statement, fitting)
    return str(write(body.place(statement), new)) if new and "…" not in new and parses(new) else ""


def swapped(at: At | None, changes: Mapping[str, str]) -> str:
    """Write a statement with each of these expressions, which it has once, replaced."""
    body, statement = read_at(_place(at))
    found: dict[ast.expr, str] = {}
    for old, new in changes.items():
        node = _named(at, statement, old)
        if node is None:
            return ""
        found[node] = new
    return instead(body, statement, found)


def swapped_everywhere(at: At | None, old: str, new: str) -> str:
    """Write a statement with an expression replaced wherever it stands in it."""
    body, statement = read_at(_place(at))
    return instead(body, statement, dict.fromkeys(_alike(statement, old), new)) if _alike(statement, old) else ""


def swapped_together(pairs: Sequence[tuple[Line, str, str]]) -> str:
    """Write a statement with several expressions replaced, each that of an operation which a watch has seen there."""
    body, statement = read_at(pairs[0][0].place)
    found = [(_named(line, statement, old), new) for line, old, new in pairs]
    changes = {node: new for node, new in found if node is not None}
    return instead(body, statement, changes) if len(changes) == len(pairs) else ""


def renewed(line: Line | None, new: str) -> str:
    """Write the very expression of a line anew."""
    body, statement, node = expression_of(line)
    return instead(body, statement, {node: new}) if node is not None and parses(new) else ""


def expression_of(line: Line | None) -> tuple[Body | None, ast.stmt | None, ast.expr | None]:
    """Return the expression that a watch has seen, with its statement; None where only the line is known."""
    body, statement = read_at(_place(line))
    if line is None or line.column < 0:
        return body, statement, None
    end, begin = (line.end, line.end_column), (line.line, line.column)
    found = [
        node
        for node in expressions(statement)
        if (node.end_lineno, node.end_col_offset) == end and (node.lineno, node.col_offset) <= begin
    ]
    return body, statement, max(found, key=lambda node: (node.lineno, node.col_offset), default=None)


def bypassed(line: Line | None, name: str) -> str:
    """Write what an operation is given in place of its result, if the program calls it by name."""
    body, statement, node = expression_of(line)
    inner = given_of(node, name) or _given_to_module(body, node, name)
    if body is None or node is None or inner is None:
        return _without_last(body, node, name)
    return instead(body, statement, {node: body.text(inner)})


def _without_last(body: Body | None, node: ast.expr | None, name: str) -> str:
    """Leave out the last module of the one `nn.Sequential` that such a call runs, where that is the operation."""
    called = dotted(node.func) if isinstance(node, ast.Call) else None
    every = statements_of(body.file) if body is not None and called is not None else ()
    made = only((of, at, value) for of, at in every for target, value in assigned(at) if dotted(target) == called)
    of, at, value = made if made is not None else (None, None, None)
    if of is None or at is None or not isinstance(value, ast.Call) or last_name(value.func) != "Sequential":
        return ""
    last = value.args[-1] if value.args else None
    kind = last_name(last.func).lower() if isinstance(last, ast.Call) and library(last.func) else ""
    if last is None or kind != name.replace("_", "") or any(isinstance(each, ast.Starred) for each in value.args):
        return ""
    left = ", ".join(map(of.text, value.args[:-1]))
    if at.lineno == at.end_lineno:
        return instead(of, at, {value: f"{of.text(value.func)}({left})"})
    line = of.lines[last.lineno - 1].strip()
    alone = last.lineno == last.end_lineno and line.rstrip(",") == of.text(last)
    return str(remove(of.place(last, line))) if alone else ""


def _given_to_module(body: Body | None, node: ast.expr | None, name: str) -> ast.expr | None:
    """What a module of PyTorch's that runs the operation is given: `x` of `self.act(x)`, which is an `nn.Sigmoid()`."""
    called = dotted(node.func) if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords else None
    if body is None or called is None or not isinstance(node, ast.Call):
        return None
    made = [
        value for _, each in statements_of(body.file) for target, value in assigned(each) if dotted(target) == called
    ]
    kinds = {last_name(value.func) if isinstance(value, ast.Call) and library(value.func) else "" for value in made}
    return node.args[0] if {kind.lower() for kind in kinds} == {name.replace("_", "")} else None


def given_of(node: ast.expr | None, name: str) -> ast.expr | None:
    """Return what a function of PyTorch's, or a method, is given: `x` of `F.softmax(x, -1)` and `x.softmax(-1)`."""
    if not isinstance(node, ast.Call) or callee(node)[1] != name:
        return None
    if isinstance(node.func, ast.Attribute) and not library(node.func) and _is_module(node):
        return None
    return next(iter(given_to(node)), None)


def _is_module(call: ast.Call) -> bool:
    """Whether a call may be that of a module of the program's: `self.softmax(x)`."""
    return any(not isinstance(each, ast.Constant | ast.UnaryOp) for each in call.args)


def with_keyword(body: Body, call: ast.Call, name: str, value: str) -> dict[ast.expr, str]:
    """Return what is to change so that a call has a keyword."""
    for each in call.keywords:
        if each.arg == name:
            return {each.value: value}
    text = body.text(call).removesuffix(")").rstrip().rstrip(",")
    return {call: f"{text}{'' if text.endswith('(') else ', '}{name}={value})"}


def without_keyword(body: Body, call: ast.Call, name: str) -> dict[ast.expr, str]:
    """Return what is to change so that a call has a keyword no more."""
    given = [body.text(each) for each in call.args]
    given += [f"{each.arg}={body.text(each.value)}" for each in call.keywords if each.arg and each.arg != name]
    if any(each.arg is None for each in call.keywords):
        return {}
    return {call: f"{body.text(call.func)}({', '.join(given)})"}


def given_keyword(at: At | None, called: str, name: str, value: str) -> str:
    """Give a keyword to the call of a function in a statement."""
    body, statement, call = call_at(at, called)
    return instead(body, statement, with_keyword(body, call, name, value)) if body and call is not None else ""


def rid_of_keyword(at: At | None, name: str, *called: str) -> str:
    """Take a keyword away from the call of a function in a statement."""
    body, statement, call = call_at(at, *called)
    return instead(body, statement, without_keyword(body, call, name)) if body and call is not None else ""


def divided(place: Place) -> str:
    """Divide without rounding in the statement at a place."""
    body, statement = read_at(place)
    found = [
        each for each in expressions(statement) if isinstance(each, ast.BinOp) and isinstance(each.op, ast.FloorDiv)
    ]
    if body is None or len(found) != 1:
        return ""
    return instead(body, statement, {found[0]: f"{body.text(found[0].left)} / {body.text(found[0].right)}"})


def gone(place: Place | None) -> str:
    """Remove a statement; `pass` takes its place where it is all of a block."""
    body, statement = read_at(place)
    if body is None or statement is None:
        return ""
    if _is_beside_another(body, statement):
        return ""
    at = body.place(statement)
    return str(write(at, "pass") if len(block_of(body, statement)) == 1 else remove(at))


def _is_beside_another(body: Body, statement: ast.stmt) -> bool:
    """Whether another statement of its block is on the line of one: `loss.backward(); opt.step()`."""
    return sum(each.lineno == statement.lineno for each in block_of(body, statement)) > 1


def place_on(file: str, line: int) -> Place | None:
    """Return the first statement on a line."""
    body = body_around(file, line)
    statement = statement_at(body, line)
    return body.place(statement) if body is not None and statement is not None else None


def are_beside(one: Place, other: Place) -> bool:
    """Whether two statements stand on lines of their own in one block, so that either may be put beside the other."""
    (body, first), (_, second) = read_at(one), read_at(other)
    block = block_of(body, first) if body is not None and first is not None else []
    lines = [each.lineno for each in block]
    alone = all(lines.count(each.line) == 1 for each in (one, other))
    return alone and any(each is second for each in block)


def is_known(code: str, at: Place) -> bool:
    """Whether all variables that a code reads are bound where it would stand, as far as the text shows."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return False
    names = {(node.id, isinstance(node.ctx, ast.Load)) for node in ast.walk(tree) if isinstance(node, ast.Name)}
    own = {name for name, is_read in names if not is_read}
    wanted = {name for name, is_read in names if is_read} - own - vars(builtins).keys()
    return wanted <= {name for body in _around(at) for name in _bound_in(body)}


def _around(at: Place) -> Iterator[Body]:
    for body in functions(at.file):
        last = 2**31 if isinstance(body.node, ast.Module) else getattr(body.node, "end_lineno", 0) or 0
        if getattr(body.node, "lineno", 0) <= at.line <= last:
            yield body


def _bound_in(body: Body) -> set[str]:
    return {*parameters_of(body.node), *(name for each in statements(body.node) for name in bound(each))}


def functional(file: str) -> str:
    """Import torch.nn.functional as F, where the file does not."""
    module = body_around(file, 0) or body_around(file, 1)
    there = module is not None and "F" in _bound_in(module)
    return "" if there else str(importing(file, "import torch.nn.functional as F"))


def parses(code: str) -> bool:
    """Whether a text is code."""
    try:
        ast.parse(f"{code}\n    pass" if code.endswith(":") else code)  # which lets a `return` stand anywhere
    except (SyntaxError, ValueError):
        return False
    return True


def assigned_at(place: Place) -> tuple[str, str]:
    """Return what an assignment gives a value, and the value, as it writes them; empty for any other statement."""
    body, statement = read_at(place)
    if body is None or not isinstance(statement, ast.Assign):
        return "", ""
    return body.text(statement.targets[0]), body.text(statement.value)


def call_at(at: At | None, *names: str) -> tuple[Body | None, ast.stmt | None, ast.Call | None]:
    """Return the first call of one of these names in the statement at a place."""
    body, statement = read_at(_place(at))
    return body, statement, next((each for each in calls_in(statement) if callee(each)[1] in names), None)


def around(body: Body, node: ast.expr) -> ast.stmt | None:
    """Return the statement of a function that an expression stands in."""
    return statement_at(body, node.lineno, node.col_offset)


def _place(at: At | None) -> Place | None:
    return at.place if isinstance(at, Line) else at


def _named(at: At | None, statement: ast.stmt | None, text: str) -> ast.expr | None:
    """Return the one expression of a statement that a text writes, if there are several that which a watch has seen."""
    found = _alike(statement, text)
    if len(found) > 1 and isinstance(at, Line):
        seen = expression_of(at)[2]
        inside = {id(node) for node in ast.walk(seen)} if seen is not None else set()
        found = [node for node in found if id(node) in inside]
    return found[0] if len(found) == 1 else None


def _alike(statement: ast.stmt | None, text: str) -> list[ast.expr]:
    """Return the expressions of a statement that a text writes."""
    try:
        wanted = ast.dump(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError:  # shortened
        return []
    return [node for node in expressions(statement) if ast.dump(node) == wanted]


def _fitting(body: Body, statement: ast.stmt, node: ast.expr, new: str) -> str:
    """Return a text as it can stand in the place of an expression: in brackets within another one."""
    line, end = body.lines[node.lineno - 1].encode(), node.end_col_offset or 0
    has_brackets = line[node.col_offset - 1 : node.col_offset] == b"(" and line[end : end + 1] == b")"
    if statement.lineno != statement.end_lineno or has_brackets:  # of several lines it is put together of trees
        return new
    for around in ast.walk(statement):
        if any(each is node for each in ast.iter_child_nodes(around)):
            within = isinstance(around, ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp | ast.Attribute | ast.IfExp)
            callee_or_item = getattr(around, "func", None) is node or getattr(around, "value", None) is node
            tight = within or (callee_or_item and isinstance(around, ast.Call | ast.Subscript | ast.Await))
            return simple(new) if tight else new
    return new


# Optimizers that are created elsewhere, or of other parameters.


def created_below(built: Place, last: Place, code: str) -> str:
    """Create an optimizer further down in its function, by a statement; nothing for one that was shortened."""
    body, statement = read_at(built)
    other = body_around(last.file, last.line)
    if body is None or other is None or body.node is not other.node or not code or "…" in code:
        return ""
    beside = any(each is statement for each in body.node.body) and read_at(last)[1] in body.node.body
    return f"{put(code, 'beside', last)}{remove(built)}" if beside else ""


def given_anew(built: Place, given: str) -> str:
    """Return the statement that makes an optimizer with other parameters; empty where it is not a call alone, or one of
    the program's own functions, which may take a model."""
    body, statement = read_at(built)
    value = statement.value if isinstance(statement, ast.Assign | ast.Return) else None
    if body is None or statement is None or not isinstance(value, ast.Call) or not value.args:
        return ""
    if any(each.name == callee(value)[1] for each in functions(built.file)):
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
    """Move what makes an optimizer above the loops, or the function, around it, if it needs nothing in there."""
    body, statement = read_at(made)
    if body is None or statement is None or made is None or len(block_of(body, statement)) < 2:
        return ""
    outer: ast.AST | None = next(iter(loops_around(body, made.line)), None)
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
