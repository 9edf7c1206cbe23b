"""The statement that sets a parameter to zeros, as the text shows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.source import Place
from backsight.source.body import callee, dotted, functions, statements


def zeroing(file: str, path: str) -> Place | None:
    """Return the last statement of a file that sets a parameter to zeros, by the end of its path: `self.up.weight` for
    `model.up.weight`.

    None where another statement of the file gives it other values.
    """
    written = [
        (body.place(statement), zeros)
        for body in functions(file)
        for statement in statements(body.node)
        for name, zeros in _written(statement)
        if _ends(path, name)
    ]
    last = [place for place, zeros in written if zeros]
    return last[-1] if last and all(zeros is not False for _, zeros in written) else None


def _ends(path: str, name: str) -> bool:
    """Whether a name in a class, `self.up.weight`, may stand for a path."""
    own = name.split(".")[1:] or [name]
    parts = path.split(".")
    return parts[-len(own) :] == own


def _written(statement: ast.stmt) -> Iterator[tuple[str, bool | None]]:
    """Yield the names of what a statement fills, and whether with zeros; None for memory that has no values yet."""
    match statement:
        case ast.Assign(targets=[target], value=value) if (name := dotted(target)) is not None:
            inner = value
            while isinstance(inner, ast.Call) and callee(inner)[1] == "Parameter" and inner.args:
                inner = inner.args[0]
            made = callee(inner)[1] if isinstance(inner, ast.Call) else ""
            yield name, True if made in ("zeros", "zeros_like") else None if made == "empty" else False
        case ast.Expr(value=ast.Call() as call):
            receiver, method = callee(call)
            given = call.args[0] if call.args else None
            on = given if isinstance(receiver, ast.Attribute | ast.Name) and _is_init(receiver) else receiver
            name = (dotted(on) or "").removesuffix(".data")
            nothing = bool(call.args) and isinstance(call.args[-1], ast.Constant) and call.args[-1].value == 0
            if name and method.endswith("_"):
                yield name, method in ("zeros_", "zero_") or (method in ("constant_", "fill_") and nothing)


def _is_init(receiver: ast.expr) -> bool:
    return (dotted(receiver) or "").split(".")[-1] == "init"
