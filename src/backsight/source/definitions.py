"""Which assignments a name may have its value from where it is read."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from backsight.source.bindings import Spot, bound, target_names
from backsight.source.body import LOOPS, callee, dotted, expressions, is_constant

# Methods that put their arguments into a container.
_FILLING = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "setdefault"})
_WITHS = (ast.With, ast.AsyncWith)


@dataclass(frozen=True)
class Definition:
    """A statement that gives a name its value, or a part of it.

    values: the expressions that the value comes from.
    position: which element of the value the name takes, in `a, b = value`.
    replaces: whether the old value is gone; `losses.append(x)` and `x[0] = y` add to it.
    freezes: whether the statement only turns requires_grad off.
    """

    spot: Spot
    values: tuple[ast.expr, ...] = ()
    position: int | None = None
    replaces: bool = True
    freezes: bool = False


def reaching(every: list[Spot], name: str, use: Spot) -> tuple[list[Definition], bool]:
    """The definitions that `name` may have its value from at `use`, the nearest first, and whether they are all.

    Walks backwards to the first assignment that cannot be passed by; inside a loop that has none, assignments further
    down count as well, for the iteration before.
    """
    found: list[Definition] = []
    last: Spot | None = None
    for spot in reversed(every[: use.order]):
        if _excluded(spot, use):
            continue
        here = list(definitions(spot, name))
        found += here
        if any(each.replaces for each in here) and _plain_arms(spot) == _plain_arms(use)[: len(_plain_arms(spot))]:
            last = spot
            break
    for loop, label in reversed(use.arms):
        if last is not None and (last.node is loop or (loop, "body") in last.arms):
            break
        if label == "body" and isinstance(loop, LOOPS):
            later = [spot for spot in every[use.order :] if (loop, "body") in spot.arms]
            found += [each for spot in reversed(later) for each in definitions(spot, name)]
    return found, last is not None


def definitions(spot: Spot, name: str) -> Iterator[Definition]:
    """What the statement at `spot` does to the value of `name`."""
    statement = spot.node
    complete = False
    for target, value, position in _targets(statement):
        if dotted(target) == name:
            complete = True
            values = (target, value) if isinstance(statement, ast.AugAssign) else (value,)
            yield Definition(spot, values, position)
        elif isinstance(target, ast.Subscript) and dotted(target.value) == name:
            yield Definition(spot, (value,), replaces=False)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        yield from _by_method(spot, statement.value, name)
    if name in _frozen(spot):
        yield Definition(spot, replaces=False, freezes=True)
    if not complete and name in bound(statement):  # an import, a def, a match pattern: no value to follow
        yield Definition(spot)


def _targets(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr, int | None]]:
    """Every target of the statement with the expression it is bound to."""
    match statement:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _unpacked(target, value)
        case ast.AugAssign(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value, None
        case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
            yield from ((each, value, None) for each, _, _ in _unpacked(target, value))
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars:
                    yield from _unpacked(item.optional_vars, item.context_expr)
    for node in expressions(statement):
        if isinstance(node, ast.NamedExpr):
            yield node.target, node.value, None


def _unpacked(
    target: ast.expr, value: ast.expr, position: int | None = None
) -> Iterator[tuple[ast.expr, ast.expr, int | None]]:
    if isinstance(target, ast.Starred):
        yield from _unpacked(target.value, value)
    elif not isinstance(target, ast.Tuple | ast.List):
        yield target, value, position
    elif isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
        for each, its_value in zip(target.elts, value.elts, strict=True):
            yield from _unpacked(each, its_value)
    else:
        for number, each in enumerate(target.elts):
            yield from _unpacked(each, value, number if position is None else None)


def _by_method(spot: Spot, call: ast.Call, name: str) -> Iterator[Definition]:
    receiver, method = callee(call)
    if receiver is None or dotted(receiver) != name:
        return
    if method in ("requires_grad_", "detach_"):
        yield Definition(spot, (call,), replaces=False)
    elif method in _FILLING or (method.endswith("_") and not method.endswith("__")):
        values = (*call.args, *(each.value for each in call.keywords))
        yield Definition(spot, values, replaces=False)


def _frozen(spot: Spot) -> Iterator[str]:
    """The names that `x.requires_grad = False` turns off, and the model in a loop over its parameters."""
    match spot.node:
        case ast.Assign(targets=[ast.Attribute(attr="requires_grad", value=owner)], value=value) if is_constant(
            value, False
        ):
            pass
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="requires_grad_", value=owner), args=[value])) if (
            is_constant(value, False)
        ):
            pass
        case _:
            return
    frozen = dotted(owner)
    if frozen and isinstance(spot.node, ast.Assign):
        yield frozen
    for loop, _ in spot.arms:
        if isinstance(loop, ast.For) and frozen in target_names(loop.target) and isinstance(loop.iter, ast.Call):
            receiver, method = callee(loop.iter)
            if method in ("parameters", "named_parameters"):
                yield dotted(receiver) or ""


def _plain_arms(spot: Spot) -> list[tuple[ast.stmt, str]]:
    """The blocks around a statement that may be skipped: a `with` block never is."""
    return [arm for arm in spot.arms if not isinstance(arm[0], _WITHS)]


def _excluded(spot: Spot, use: Spot) -> bool:
    """Whether the two stand in different branches of one statement, and no loop around it leads from one to other."""
    for (mine, label), (its, other) in zip(spot.arms, use.arms, strict=False):
        if mine is not its:
            return False
        if label != other:
            return isinstance(mine, ast.If | ast.Match)
        if label == "body" and isinstance(mine, LOOPS):
            return False
    return False
