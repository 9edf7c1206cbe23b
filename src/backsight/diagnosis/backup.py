"""BS148: a backup that is the weights themselves, so that to restore it copies them onto themselves."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from backsight.diagnosis.amending import instead
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown, warning
from backsight.source.bindings import assigned
from backsight.source.body import Body, callee, dotted, functions, statements
from backsight.tracing import Copy

CODES = ("BS148",)


def own_backup(copies: Iterable[Copy]) -> Iterator[Finding]:
    """Yield the findings of statements that copy tensors onto themselves, if one statement stores them uncopied.

    >>> self.saved[n] = p.data      # and later: p.data.copy_(self.saved[n])
    """
    for each in copies:
        kept = _container(each.call.args[0]) or _of_items(each.body, each.call.args[0])
        stored = [found for body in functions(each.body.file) for found in _stores(body, kept)] if kept else []
        if len(stored) != 1:
            continue
        (body, statement, value), place = stored[0], each.body.place(each.statement)
        at, text = body.place(statement), body.text(value)
        edit = instead(body, statement, {value: f"{text}.clone()"})
        yield warning(
            "BS148",
            f"{kept} is not a copy: it holds the memory of the weights themselves.",
            (
                shown(at, "stores the tensors, not copies of their values."),
                shown(place, "copies each one onto itself, which restores nothing."),
            ),
            f"Store a copy: {at.text.replace(text, f'{text}.clone()', 1)}{edit}."
            if at.text.count(text) == 1 or text not in at.text
            else f"Store a copy: {text}.clone(){edit}.",
            at,
        )


def _container(value: ast.expr) -> str:
    """Return what a value is an item of: `self.saved` of `self.saved[n]`."""
    while isinstance(value, ast.Call | ast.Attribute) and not dotted(value):
        value = value.func if isinstance(value, ast.Call) else value.value
    return dotted(value.value) or "" if isinstance(value, ast.Subscript) else ""


def _of_items(body: Body, value: ast.expr) -> str:
    """Return the container that a loop takes a variable from: `for p, b in zip(model.parameters(), self.saved):`."""
    name = dotted(value)
    for each in statements(body.node):
        if isinstance(each, ast.For) and isinstance(each.target, ast.Tuple) and isinstance(each.iter, ast.Call):
            if callee(each.iter)[1] != "zip" or len(each.iter.args) != len(each.target.elts):
                continue
            for variable, given in zip(each.target.elts, each.iter.args, strict=True):
                if name is not None and dotted(variable) == name:
                    given = given.func.value if _is_view(given) else given  # type: ignore[attr-defined]
                    return dotted(given) or ""
    return ""


def _is_view(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "values"


def _stores(body: Body, kept: str) -> Iterator[tuple[Body, ast.stmt, ast.expr]]:
    """Yield the statements that put tensors into a container as they are."""
    last = kept.split(".")[-1]
    for each in statements(body.node):
        stores: list[tuple[ast.expr, ast.expr | None]] = []
        for pair in assigned(each):
            match pair:
                case ast.Subscript(value=held), value:
                    stores.append((held, value))
                case held, ast.DictComp(value=value) | ast.ListComp(elt=value):
                    stores.append((held, value))
        match each:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=held, attr="append"), args=[value])):
                stores.append((held, value))
        for held, stored in stores:
            if (dotted(held) or "").split(".")[-1] == last and stored is not None and _is_itself(stored):
                yield body, each, stored


def _is_itself(value: ast.expr) -> bool:
    """Whether an expression has the memory of a variable: `p`, `p.data`, `p.detach()`."""
    if isinstance(value, ast.Call):
        receiver, method = callee(value)
        return method == "detach" and receiver is not None and _is_itself(receiver)
    if isinstance(value, ast.Attribute) and value.attr == "data":
        value = value.value
    return isinstance(value, ast.Name)
