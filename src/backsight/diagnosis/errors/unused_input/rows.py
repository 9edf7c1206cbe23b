"""A loop goes through the rows of a tensor: each row is a new tensor, which nothing was computed from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from backsight.diagnosis.errors.unused_input.case import Unused, is_in
from backsight.source import Body
from backsight.source.bindings import uses
from backsight.source.body import callee, calls_in, dotted, expressions, is_constant, keyword, statements
from backsight.source.edits import on_line
from backsight.source.imports import is_gradient_call
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.memory import base_of, is_tensor

_Loop = ast.For | ast.comprehension


@dataclass(frozen=True, eq=False)
class _Rows:
    """A loop whose variable is a row of `whole`, as the loop writes it; `index`: what counts the passes, or would."""

    loop: _Loop
    whole: ast.expr
    index: str
    is_counted: bool


def of_row(case: Unused) -> str:
    """To ask for the gradient of the whole tensor and take the row of the pass; empty where no loop gives the row."""
    level = case.failure.user
    body, statement = (level.body, level.statement) if level else (None, None)
    call = next((each for each in calls_in(statement) if is_gradient_call(each)), None)
    if level is None or body is None or statement is None or call is None or len(case.failure.inputs) != 1:
        return ""
    found = next(_rows(level, body, statement, case.name, case.tensors[0]), None)
    asked = call.args[1] if len(call.args) > 1 else keyword(call, "inputs")
    held = value_of(level, found.whole) if found is not None else None
    if found is None or asked is None or not (is_tensor(held) and is_in(case.graph, held)):
        return ""
    whole = body.text(found.whole)
    asking = _asking(body, call, asked, whole)
    counting = {} if found.is_counted else _counting(body, found)
    taken = f"{asking}[0][{found.index}]"
    first = next(
        (each for each in expressions(statement) if isinstance(each, ast.Subscript) and each.value is call), call
    )
    inside = counting if isinstance(found.loop, ast.comprehension) else {}
    line = rewritten(body, statement, {**inside, first: taken if first is not call else f"({taken},)"})
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name)])], value=value) if value is call and not inside:
            line = f"{name} = {taken}"
    header = rewritten(body, found.loop, counting) if isinstance(found.loop, ast.For) and counting else ""
    if not line or (isinstance(found.loop, ast.For) and counting and not header):
        return ""
    on = f"{on_line(body.place(found.loop), header)}, and " if header and isinstance(found.loop, ast.For) else ""
    edits = f"{on}{on_line(body.place(statement), line)}"
    return f"Take the gradient of {whole}, then the row of it: {edits}."


def _rows(level: Level, body: Body, at: ast.stmt, name: str, row: torch.Tensor) -> Iterator[_Rows]:
    """The loops around a statement, the innermost first, that give a name the rows of the tensor that `row` is of."""
    around = [each for each in statements(body.node) if isinstance(each, ast.For) and _covers(each, at)]
    inner = [each for node in expressions(at) for each in getattr(node, "generators", ())]
    used = {use.name for each in statements(body.node) for use in uses(each)}
    for loop in (*reversed(inner), *reversed(around)):
        target, source, index = loop.target, loop.iter, ""
        if isinstance(source, ast.Call) and callee(source)[1] == "enumerate" and isinstance(target, ast.Tuple):
            index, target, source = dotted(target.elts[0]) or "", target.elts[1], source.args[0]
        pairs = [(target, source)]
        if isinstance(source, ast.Call) and callee(source)[1] == "zip" and isinstance(target, ast.Tuple):
            pairs = list(zip(target.elts, source.args, strict=False))
        whole = next((_unbound(each) for one, each in pairs if dotted(one) == name), None)
        held = value_of(level, whole)
        if whole is not None and is_tensor(held) and base_of(row) is held and row.shape == held.shape[1:]:
            yield _Rows(
                loop, whole, index or next(each for each in ("k", "row", "at_row") if each not in used), bool(index)
            )


def _covers(loop: ast.For, at: ast.stmt) -> bool:
    return loop.lineno < at.lineno <= (loop.end_lineno or 0)


def _unbound(source: ast.expr) -> ast.expr:
    """`weights` of `weights.unbind(0)`."""
    receiver, method = callee(source) if isinstance(source, ast.Call) else (None, "")
    first = isinstance(source, ast.Call) and all(
        ast.unparse(each) in ("0", "dim=0") for each in (*source.args, *source.keywords)
    )
    return receiver if receiver is not None and method == "unbind" and first else source


def _counting(body: Body, found: _Rows) -> dict[ast.expr, str]:
    target = body.text(found.loop.target)
    inner = f"({target.strip('()')})" if isinstance(found.loop.target, ast.Tuple) else target
    return {found.loop.target: f"{found.index}, {inner}", found.loop.iter: f"enumerate({body.text(found.loop.iter)})"}


def _asking(body: Body, call: ast.Call, asked: ast.expr, whole: str) -> str:
    """The call for the whole tensor; its graph is needed by the next row, too."""
    args = [whole if each is asked else body.text(each) for each in call.args]
    keywords = [f"{each.arg}={whole if each.value is asked else body.text(each.value)}" for each in call.keywords]
    kept = any(is_constant(keyword(call, each), True) for each in ("create_graph", "retain_graph"))
    return f"{body.text(call.func)}({', '.join([*args, *keywords, *([] if kept else ['retain_graph=True'])])})"
