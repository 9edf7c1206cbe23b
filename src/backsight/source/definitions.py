"""Which assignments a name may have its value from where it is read."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from operator import itemgetter

from backsight.source.bindings import Spot, bound, spots, target_names, targets
from backsight.source.body import LOOPS, Body, Scope, callee, dotted, expressions, is_constant, is_stored, statement_at

MOST = 200
"""How many assignments of one name are told apart: more stand in generated code only."""

# Methods that put their arguments into a container.
FILLING = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "setdefault"})


@dataclass(frozen=True, eq=False)
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


@dataclass(frozen=True, eq=False)
class Flow:
    """The statements of a function, and for each name those that do something to it.

    `spots` is every statement in source order, `touching` has for each name what defines or fills it, with its rank.
    """

    spots: tuple[Spot, ...]
    touching: Mapping[str, tuple[tuple[int, tuple[Definition, ...]], ...]]

    def read_at(self, body: Body, expression: str, line: int) -> tuple[Spot | None, ast.expr | None]:
        """The statement at `line` that reads `expression`, and where it does: of several on one line the last.

        Where none reads it, the first statement at the line and None.
        """
        statement = statement_at(body, line)
        first = next((spot for spot in self.spots if spot.node is statement), None)
        if first is None:
            return None, None
        beside = takewhile(lambda spot: spot.node.lineno == line, self.spots[first.order + 1 :])
        for spot in reversed([first, *beside]):
            for node in expressions(spot.node):
                if not is_stored(node) and body.text(node) == expression:
                    return spot, node
        return first, None

    def touched(self, name: str, start: int, end: int) -> list[tuple[Spot, tuple[Definition, ...]]]:
        """The statements ranked from `start` to before `end` that do something to `name`, and what, the last first."""
        known = self.touching.get(name, ())
        first, last = (bisect_left(known, rank, key=itemgetter(0)) for rank in (start, end))
        return [(self.spots[rank], here) for rank, here in reversed(known[first:last])]


@lru_cache(maxsize=64)  # of one failure the same few functions are asked again and again
def flow_of(scope: Scope) -> Flow:
    """Read a function once, so that every question about a name looks at that name's statements alone."""
    every = tuple(spots(scope))
    touching: dict[str, list[tuple[int, tuple[Definition, ...]]]] = {}
    for spot in every:
        for name in _names(spot):
            if here := tuple(definitions(spot, name)):
                touching.setdefault(name, []).append((spot.order, here))
    return Flow(every, {name: tuple(known) for name, known in touching.items()})


def reaching(flow: Flow, name: str, use: Spot) -> tuple[list[Definition], bool]:
    """The definitions that `name` may have its value from at `use`, the nearest first, and whether they are all.

    Walks backwards to the first assignment that cannot be passed by; inside a loop that has none, assignments further
    down count as well, for the iteration before. Ends after some hundred that may be passed by, and then says that
    these are not all.
    """
    found: list[Definition] = []
    last: Spot | None = None
    for spot, here in flow.touched(name, 0, use.order):
        if _excluded(spot, use):
            continue
        found += here
        if any(each.replaces for each in here) and spot.branches == use.branches[: len(spot.branches)]:
            last = spot
            break
        if len(found) >= MOST:
            return found, False
    for loop, label in reversed(use.arms):
        if last is not None and (last.node is loop or (loop, "body") in last.arms):
            break
        if label == "body" and isinstance(loop, LOOPS):
            for spot, here in flow.touched(name, use.order, len(flow.spots)):
                found += here if (loop, "body") in spot.arms else ()
    return found, last is not None


def values_of(body: Body, name: str, line: int) -> list[ast.expr]:
    """The expressions from which `name` may have its value at `line`, as the text of the function shows."""
    flow = flow_of(body.node)
    use, _ = flow.read_at(body, name, line)
    found = reaching(flow, name, use)[0] if use else []
    return [value for each in found if each.replaces and each.position is None for value in each.values]


def gathers(value: ast.expr) -> bool:
    """Whether an expression makes a list or tuple: `[]`, `[f(x) for x in xs]`, `list(losses.values())`."""
    called = isinstance(value, ast.Call) and callee(value) in ((None, "list"), (None, "tuple"), (None, "sorted"))
    return called or isinstance(value, ast.List | ast.Tuple | ast.ListComp)


def _names(spot: Spot) -> set[str]:
    """The names for which `definitions` has something to say at `spot`, and perhaps a few more."""
    named = [target.value if isinstance(target, ast.Subscript) else target for target, _, _ in targets(spot.node)]
    match spot.node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=receiver))):
            named.append(receiver)
    return {name for each in named if (name := dotted(each))} | {*_frozen(spot), *bound(spot.node)}


def definitions(spot: Spot, name: str) -> Iterator[Definition]:
    """What the statement at `spot` does to the value of `name`."""
    statement = spot.node
    complete = False
    for target, value, position in targets(statement):
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


def _by_method(spot: Spot, call: ast.Call, name: str) -> Iterator[Definition]:
    receiver, method = callee(call)
    if receiver is None or dotted(receiver) != name:
        return
    if method in ("requires_grad_", "detach_"):
        yield Definition(spot, (call,), replaces=False)
    elif method in FILLING or (method.endswith("_") and not method.endswith("__")):
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
