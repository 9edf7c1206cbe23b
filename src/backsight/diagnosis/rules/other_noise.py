"""BS153: the target of a loss is noise that nothing else uses, while the model was given other noise."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from backsight.diagnosis.amending import instead
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import shown, warning
from backsight.source import Body, Place, assignments, only, read_at, statement_at
from backsight.source.bindings import parameters_of
from backsight.source.body import callee, calls_in, dotted, expressions, functions, statements

_COMPARES = frozenset({"Sub", "MseLoss", "L1Loss", "SmoothL1Loss", "HuberLoss"})
_NORMAL = frozenset({"randn", "randn_like"})
_DRAWS = _NORMAL | {"normal", "normal_", "rand", "rand_like"}


class _Noised(NamedTuple):
    """The statement that adds noise of its own to the data; `hand` is what to write to give it the target, and `edit`
    writes it."""

    place: Place
    drawn: Place
    hand: str
    edit: str = ""


@rule("BS153")
def other_noise(scene: Scene) -> Iterator[Finding]:
    """A loss compares with `randn_like(x)`, read nowhere else; what the model gets of `x` has noise drawn elsewhere.

    The statement of the comparison ran, as a node of this loss comes from there. Its function tells the rest: what is
    read in no other statement cannot have been added to anything.
    """
    told: set[Place] = set()
    for node in scene.graph.nodes:
        line = scene.line_of(node) if node.op in _COMPARES else None
        body, statement = read_at(line.place if line is not None else None)
        if line is None or body is None or statement is None or line.place in told:
            continue
        told.add(line.place)
        for name, made, data in _targets(body, statement, node.op):
            noised = _noised(body, statement, name, data)
            if noised is not None:
                yield _finding(name, made, noised, line.place, node.index)


def _finding(name: str, made: Place, noised: _Noised, compared: Place, node: int) -> Finding:
    draws = () if noised.drawn == noised.place else (shown(noised.drawn, "draws that noise."),)
    return warning(
        "BS153",
        f"The loss compares with {name}, but the model is given data with other noise.",
        (
            shown(made, f"draws {name}, which nothing but the loss reads."),
            shown(noised.place, "adds noise of its own to the data."),
            *draws,
            shown(compared, f"compares with {name}, which cannot be predicted: the best output is its mean, 0."),
        ),
        f"Add the noise that is the target: {noised.hand}{noised.edit if made.line < noised.place.line else ''}.",
        noised.place,
        nodes=(node,),
    )


def _targets(body: Body, statement: ast.stmt, op: str) -> Iterator[tuple[str, Place, str]]:
    """Yield the names in a comparison that were given normal noise of the shape of something, and are read here alone;
    with that statement and what it takes the shape of."""
    compared: list[ast.expr] = []
    for each in expressions(statement):
        if op == "Sub" and isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub):
            compared += [each.left, each.right]
        elif isinstance(each, ast.Call) and (op != "Sub" or callee(each)[1] == "l1_loss"):
            compared += each.args
    for name in dict.fromkeys(each.id for each in compared if isinstance(each, ast.Name)):
        places = assignments(body, name)
        made = statement_at(body, *places[0].position) if len(places) == 1 else None
        value = made.value if isinstance(made, ast.Assign) and dotted(made.targets[0]) == name else None
        if not isinstance(value, ast.Call) or callee(value)[1] not in _NORMAL or not value.args:
            continue
        if _times_read(body, name) == 1:
            yield name, places[0], _shape_of(value.args[0])


def _times_read(body: Body, name: str) -> int:
    """Return how often a function reads a name; those inside of it count unless it is a variable of their own."""
    inside = [each for each in functions(body.file) if each.node is not body.node and _is_inside(each, body)]
    others = [each for each in inside if name not in parameters_of(each.node) and not assignments(each, name)]
    nodes = (n for each in (body, *others) for s in statements(each.node) for n in expressions(s))
    return sum(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in nodes)


def _is_inside(inner: Body, body: Body) -> bool:
    last = 2**31 if isinstance(body.node, ast.Module) else body.node.end_lineno or 0
    return not isinstance(inner.node, ast.Module) and getattr(body.node, "lineno", 0) < inner.node.lineno <= last


def _shape_of(given: ast.expr) -> str:
    """Return the x of `randn_like(x)`, `randn(x.shape)`, `randn(*x.shape)`, `randn(x.size())`; else nothing."""
    given = given.value if isinstance(given, ast.Starred) else given
    given = given.func if isinstance(given, ast.Call) else given
    is_shape = isinstance(given, ast.Attribute) and given.attr in ("shape", "size")
    return dotted(given.value if is_shape and isinstance(given, ast.Attribute) else given) or ""


def _noised(body: Body, statement: ast.stmt, target: str, data: str) -> _Noised | None:
    """Return the one statement that adds other noise to the data, of those that lead to a comparison."""
    found = []
    for each in _leading_to(body, statement, target) if data else ():
        if data.split(".")[0] not in _reads(each):
            continue
        for call in calls_in(each):
            if callee(call)[1] in _DRAWS:
                hand, edit = f"{target} in place of {body.text(call)}", instead(body, each, {call: target})
                found.append(_Noised(body.place(each), body.place(each), hand, edit))
            elif any(dotted(value) == data for value in call.args):
                inner = [b for b in functions(body.file) if b.name == callee(call)[1]]
                found += [n for b in inner if (n := _draws_inside(body, each, call, b, target)) is not None]
    return only(found)


def _draws_inside(body: Body, statement: ast.stmt, call: ast.Call, inner: Body, target: str) -> _Noised | None:
    """Return that a function which is given the data draws noise, for which it may take an argument."""
    drawing = [s for s in statements(inner.node) if any(callee(c)[1] in _NORMAL for c in calls_in(s))]
    if len(drawing) != 1:
        return None
    arguments = inner.node.args.args if isinstance(inner.node, ast.FunctionDef) else []
    bound = {dotted(each) for each in getattr(drawing[0], "targets", [])}
    takes = next((each.arg for each in arguments if each.arg in bound), None)
    named = [each.arg for each in arguments if each.arg != "self"]
    if takes is not None and (takes in {each.arg for each in call.keywords} or named.index(takes) < len(call.args)):
        return None
    text = body.text(call)
    hand = f"{text[:-1]}, {takes}={target})" if takes is not None else f"give {target} to {callee(call)[1]}()"
    edit = instead(body, statement, {call: hand}) if takes is not None else ""
    return _Noised(body.place(statement), inner.place(drawing[0]), hand, edit)


def _leading_to(body: Body, statement: ast.stmt, target: str) -> list[ast.stmt]:
    """Return a statement, and those of its function that give the names it reads their values, but for the target's."""
    found, names = [statement], {target}
    for each in found:  # grows as we go
        for name in {
            n.id for n in expressions(each) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        } - names:
            names.add(name)
            places = assignments(body, name, before=each.lineno)
            made = statement_at(body, *places[-1].position) if places else None
            found += [made] if made is not None and made not in found else []
    return found


def _reads(statement: ast.stmt) -> set[str]:
    return {n.id for n in expressions(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
