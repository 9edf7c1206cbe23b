"""Why an optimizer was built without a parameter: it was frozen then, or did not exist yet."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.diagnosis.scene import Scene
from backsight.naming.roots import is_user_class
from backsight.source import Body, Place
from backsight.source.body import body_around, callee, calls_in, functions, statement_at, statements
from backsight.tape import Leaf, modules_in, parameters_in


def filtering(built: Place) -> Place | None:
    """Return the statement that takes only what requires a gradient: the one that builds an optimizer, or one of a
    function in its file that it calls."""
    body = body_around(built.file, built.line)
    statement = statement_at(body, *built.position) if body is not None else None
    if body is None or statement is None:
        return None
    names = {callee(call)[1] for call in calls_in(statement)}
    inside = [(body, statement)]
    inside += [(b, s) for b in functions(body.file) if _name(b) in names for s in statements(b.node)]
    found = [each.place(s) for each, s in inside if _filters(s)]
    return found[0] if len(found) == 1 else None


def _filters(statement: ast.stmt) -> bool:
    """Whether a statement selects parameters by `requires_grad`: a filter, a comprehension, or an `if`."""
    if isinstance(statement, ast.If):
        return any(
            isinstance(each, ast.Attribute) and each.attr == "requires_grad" for each in ast.walk(statement.test)
        )
    if isinstance(statement, ast.Assign | ast.Return | ast.Expr):
        tests = [i for each in ast.walk(statement) if isinstance(each, ast.comprehension) for i in each.ifs]
        tests += [c.args[0] for c in calls_in(statement) if callee(c) == (None, "filter") and c.args]
        return any(isinstance(n, ast.Attribute) and n.attr == "requires_grad" for each in tests for n in ast.walk(each))
    return False


def created_after(scene: Scene, leaf: Leaf, built: Place) -> Place | None:
    """Return the one statement, further down than that which builds an optimizer, that creates the module of a leaf.

    It constructs a class that the program constructs nowhere else, or calls the only function that does.
    """
    around, model = body_around(built.file, built.line), scene.models.get(leaf.name.partition(".")[0])
    kinds = {
        type(module).__name__
        for path, module in (modules_in(model) if model is not None else ())
        if path and is_user_class(type(module).__module__) and any(p is leaf.tensor() for p in parameters_in(module))
    }
    if around is None or not kinds:
        return None
    found = list(_calling(built.file, kinds))
    inner = {_name(body) for body, _ in found if body.node is not around.node}
    if inner:
        found = [each for each in found if each[0].node is around.node] + list(_calling(built.file, inner))
    elsewhere = any(body.node is not around.node for body, _ in found) or "__init__" in inner
    lines = dict.fromkeys(around.place(statement) for _, statement in found)
    place = next(iter(lines)) if len(lines) == 1 and not elsewhere else None
    return place if place is not None and place.line > built.last else None


def _calling(file: str, names: set[str]) -> Iterator[tuple[Body, ast.stmt]]:
    for body in functions(file):
        for statement in statements(body.node):
            if any(callee(call)[1] in names for call in calls_in(statement)):
                yield body, statement


def _name(body: Body) -> str:
    return getattr(body.node, "name", "")
