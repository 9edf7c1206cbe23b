"""What makes an attribute of a module its own: a parameter of a tensor, a ModuleList of a plain list."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.wording import listed
from backsight.source import Body, Place, assignments, read_at, statement_at
from backsight.source.body import callee, dotted, imported_in
from backsight.source.definitions import values_of
from backsight.source.edits import Edit, instead, put, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.failure import Level
from backsight.story.memory import is_tensor
from backsight.story.sections import methods_of


def assigned_at(module: torch.nn.Module, attribute: str) -> Place | None:
    """The statement of the class that assigns the attribute; of several that of `__init__`."""
    bodies = sorted(methods_of(type(module)), key=lambda body: body.name != "__init__")
    return next((each for body in bodies for each in assignments(body, f"self.{attribute}")), None)


def contained(attribute: str, place: Place | None, wanted: str) -> str:
    """The statement with what it assigns made `wanted`; without it where that is not plain, or too long for a line."""
    body, statement = read_at(place)
    node = _part(statement, attribute)
    text = body.text(node) if body is not None and node is not None else "…"
    if place is None or body is None or node is None or statement is None or "…" in text:
        return f"self.{attribute} = {wanted}(...)"
    wanted = wanted if "nn" in imported_in(place.file) else f"torch.{wanted}"
    made = f"{wanted}({'' if text in ('[]', '{}', 'list()', 'dict()') else text})"
    alone = node is getattr(statement, "value", None)
    if alone:
        return f"self.{attribute} = {made}{instead(body, statement, f'self.{attribute} = {made}')}"
    new = rewritten(body, statement, {node: made})
    return f"{new}{write(place, new)}" if new else f"self.{attribute} = {made}"


def as_parameters(level: Level, learnt: Sequence[tuple[torch.nn.Module, str, object]]) -> str:
    """What to write for each of some attributes of modules so that it is a parameter."""
    nn = "nn" if level.value("nn") is torch.nn else "torch.nn"
    parts: dict[Place, dict[str, str]] = {}
    unplaced: list[str] = []
    for module, attribute, held in learnt:
        kind = "" if is_tensor(held) else "Dict" if type(held) is dict else "List"
        if place := assigned_at(module, attribute):
            parts.setdefault(place, {})[attribute] = f"{nn}.Parameter{kind}"
        else:
            unplaced.append(f"write `self.{attribute} = {nn}.Parameter{kind}(...)` where it is set")
    told, edits = list[str](), list[Edit]()
    for place, kinds in parts.items():
        body, statement = read_at(place)
        values = {each: _part(statement, each) for each in kinds}
        inside = {each: converted(body, statement, each) for each in kinds}
        if all(each is not None and each.mended for each in inside.values()):
            kept = {each.place: each for each in inside.values() if each is not None}
            told += [f"on line {at.line}, write `{each.mended}`" for at, each in kept.items()]
            edits += [write(at, each.mended) for at, each in kept.items()]
            continue
        changes = {
            node: f"{kinds[each]}({_constant(body.text(node))})" for each, node in values.items() if node and body
        }
        new = rewritten(body, statement, changes) if body and statement and len(changes) == len(kinds) else ""
        if new:
            told.append(f"on line {place.line}, write `{new}`")
            edits.append(write(place, new))
        for code in () if new else (f"self.{each} = {kinds[each]}(self.{each})" for each in kinds):
            told.append(f"put `{code}` below line {place.line}")
            edits.append(put(code, "below", place))
    return f"{listed([*told, *dict.fromkeys(unplaced)], 6)}{'' if unplaced else ''.join(map(str, edits))}"


class Converted(NamedTuple):
    """A statement that makes a parameter and takes what a method of it returns, `nn.Parameter(w).double()`: a plain
    tensor. `by` is that method, and `mended` the statement with the parameter around it."""

    place: Place
    by: str
    mended: str


def converted(body: Body | None, statement: ast.stmt | None, attribute: str) -> Converted | None:
    """The statement that loses a parameter which was to be an attribute, directly or by a variable."""
    node = _part(statement, attribute)
    if body is None or statement is None or node is None:
        return None
    values = values_of(body, node.id, statement.lineno) if isinstance(node, ast.Name) else [node]
    for value in values:
        at, inner, by = statement_at(body, value.lineno, value.col_offset), value, ""
        while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr != "Parameter":
            by = inner.func.attr if by in ("", "requires_grad_") else by
            inner = inner.func.value
        if inner is value or not isinstance(inner, ast.Call) or callee(inner)[1] != "Parameter" or not inner.args:
            continue
        text, whole, given = body.text(inner), body.text(value), body.text(inner.args[0])
        rest = [f", {body.text(each)}" for each in inner.args[1:]]
        rest += [f", {each.arg}={body.text(each.value)}" for each in inner.keywords]
        made = f"{body.text(inner.func)}({simple(given)}{_constant(whole.removeprefix(text))}{''.join(rest)})"
        plain = at is not None and whole.startswith(text) and "…" not in whole
        if at is not None:
            return Converted(body.place(at), by, rewritten(body, at, {value: made}) if plain else "")
    return None


def _constant(text: str) -> str:
    """A value without the request for a gradient."""
    return re.sub(r",?\s*requires_grad=True|\.requires_grad_\((True)?\)", "", text)


def _part(statement: ast.stmt | None, attribute: str) -> ast.expr | None:
    """What a statement assigns to an attribute: of `self.w, self.b = w, b`, the part that goes there."""
    value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    if not isinstance(target, ast.Tuple | ast.List):
        return value
    at = next((k for k, each in enumerate(target.elts) if dotted(each) == f"self.{attribute}"), None)
    paired = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
    return value.elts[at] if isinstance(value, ast.Tuple | ast.List) and paired and at is not None else None
