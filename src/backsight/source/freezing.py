"""Which statements turn requires_grad off or on, and by which words in the names of parameters they choose."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from backsight.source.bindings import Spot, parameters_of, spots, target_names, uses
from backsight.source.body import (
    Body,
    Place,
    body_around,
    callee,
    calls_in,
    dotted,
    functions,
    is_constant,
    statements,
    statements_of,
)


@dataclass(frozen=True, eq=False)
class Freezing:
    """A statement that may turn requires_grad off.

    chosen: the conditions on which it depends; where a value is assigned, that too.
    at: the nearest of these conditions, else the statement.
    body: the function that it stands in.
    statement: the statement itself, and `switch`, what it sets requires_grad to.
    loop: the innermost loop around it.
    call: of what is asked, the call that has told its function to freeze it, where that is one.
    """

    place: Place
    at: Place
    chosen: tuple[ast.expr, ...]
    body: Body
    statement: ast.stmt
    switch: ast.expr
    loop: Place | None = None
    call: Place | None = None

    def words(self, known: Mapping[str, object]) -> tuple[tuple[str, ...], bool]:
        """The texts that the conditions look for in a name, and whether a name must begin with them; `known` tells what
        constants of the file stand for."""
        found: dict[str, None] = {}
        begins = False
        known = {**known, **self._defaults()}
        for name in self._looped():
            known.pop(name, None)
        for node in (each for condition in self.chosen for each in ast.walk(condition)):
            value = node.value if isinstance(node, ast.Constant) else known.get(dotted(node) or "")
            every: Any = value if type(value) in (list, tuple, set, frozenset) else (value,)
            found |= dict.fromkeys(each for each in every if type(each) is str)
            begins |= isinstance(node, ast.Call) and callee(node)[1] == "startswith"
        return tuple(found), begins

    def _looped(self) -> Iterator[str]:
        """The variables of loops: of a script, they stand for what came last."""
        for each in statements(self.body.node):
            if isinstance(each, ast.For):
                yield from (use.name for use in uses(each.target) if use.binds)

    def _defaults(self) -> dict[str, object]:
        """What the parameters of the function are by default, and what its only call in the file gives them."""
        calls = [given for _, given in self.given()]
        return self._by_default() | (calls[0] if len(calls) == 1 else {})

    def _by_default(self) -> dict[str, object]:
        node = self.body.node
        if not isinstance(node, ast.FunctionDef):
            return {}
        names = [each.arg for each in node.args.args]
        pairs = zip(reversed(names), reversed(node.args.defaults), strict=False)
        return {name: literal(value) for name, value in pairs}

    def given(self) -> Iterator[tuple[Place, dict[str, object]]]:
        """The calls of its function in the same file, each with what constants it gives to which parameter."""
        if not isinstance(self.body.node, ast.FunctionDef):
            return
        names = [each.arg for each in self.body.node.args.args]
        for body, statement in statements_of(self.body.file):
            for node in calls_in(statement):
                if callee(node)[1] == self.body.node.name:
                    own = names[1:] if callee(node)[0] is not None and names[:1] == ["self"] else names
                    pairs = [*zip(own, node.args, strict=False), *((k.arg, k.value) for k in node.keywords)]
                    known = {name: found for name, value in pairs if name and (found := literal(value)) is not None}
                    yield body.place(statement), known

    @property
    def told(self) -> list[Place]:
        """The calls in the same file that tell its function to freeze what they give it, `set_trainable(net, False)`;
        none where it is told neither."""
        node, flag = self.body.node, dotted(self.switch) or ""
        if not {flag} | {_root(self.body, each) for each in _switched(self.statement)} <= parameters_of(node):
            return []
        default = self._by_default().get(flag)
        return [place for place, known in self.given() if known.get(flag, default) is not True]

    @property
    def places(self) -> list[Place]:
        """What to show of it: those calls, else the statement."""
        return self.told or [self.place]


def freezing_of(names: Iterable[str], every: Iterable[Freezing]) -> list[Place]:
    """Return the statements that may have frozen what the program calls by these names: those that name one of them, if
    any does."""
    places = list(dict.fromkeys(place for each in every for place in each.places))
    own = {word for name in names for word in re.findall(r"\w+", name)} - {"self"}
    return [each for each in places if own & set(re.findall(r"\w+", each.text))] or places


def literal(node: ast.expr) -> object:
    """What a constant, or a display of constants, stands for; else None."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return None


def freezings(file: str) -> Iterator[Freezing]:
    """Every such statement of a file."""
    for body in functions(file):
        every = spots(body.node)
        for spot in every:
            value = _turned_to(spot.node)
            if value is not None and not is_constant(value, True):
                yield _freezing(body, spot, value)


def unfreezings(file: str) -> Iterator[Place]:
    """Every statement of a file that turns requires_grad on: where a function does so, or is told to, its calls."""
    return _turning(file, on=True)


def unfreezings_after(built: Place) -> list[Place]:
    """The statements that unfreeze something after an optimizer was built: those of its function, else the calls."""
    body = body_around(built.file, built.line)
    own = _own_unfreezings(body) if body is not None else []
    after = [each for each in own if each.line > built.last]
    return after or list(dict.fromkeys(each for each in unfreezings(built.file) if each.line > built.last))


def _own_unfreezings(body: Body) -> list[Place]:
    """The statements of a function itself that turn requires_grad on."""
    found = ((body.place(spot.node), _turned_to(spot.node)) for spot in spots(body.node))
    return [place for place, value in found if value is not None and is_constant(value, True)]


def turned_off(file: str, running: Collection[str] = ()) -> Iterator[Place]:
    """The same of those that turn it off; in a function that is still running, `main`, the statement itself."""
    return _turning(file, running, on=False)


def _turning(file: str, running: Collection[str] = (), *, on: bool) -> Iterator[Place]:
    for body in functions(file):
        every = spots(body.node)
        for spot in every:
            value = _turned_to(spot.node)
            if value is not None:
                does, found = is_constant(value, on), _freezing(body, spot, value)
                given = () if does and body.name in running else found.given()
                calls = [place for place, known in given if does or known.get(dotted(value) or "") is on]
                yield from calls or ([found.place] if does else [])


def _turned_to(statement: ast.stmt) -> ast.expr | None:
    """What requires_grad is set to."""
    value: ast.expr | None = None
    if isinstance(statement, ast.Assign):
        sets = any(isinstance(each, ast.Attribute) and each.attr == "requires_grad" for each in statement.targets)
        value = statement.value if sets else None
    for node in calls_in(statement):
        if callee(node)[1] == "requires_grad_":
            value = node.args[0] if node.args else ast.Constant(True)
    return value


def _switched(statement: ast.stmt) -> Iterator[ast.expr]:
    """What a statement sets requires_grad of."""
    for target in statement.targets if isinstance(statement, ast.Assign) else ():
        if isinstance(target, ast.Attribute) and target.attr == "requires_grad":
            yield target.value
    for node in calls_in(statement):
        receiver, method = callee(node)
        if receiver is not None and method == "requires_grad_":
            yield receiver


def _root(body: Body, value: ast.expr) -> str:
    """The variable that an expression leads from: `net` of a `p` in `for p in net.parameters()`."""
    loops = [each for each in statements(body.node) if isinstance(each, ast.For)]
    while not isinstance(value, ast.Name):
        match value:
            case ast.Call(func=ast.Attribute(value=inner)) | ast.Attribute(value=inner) | ast.Subscript(value=inner):
                value = inner
            case ast.Call(args=[inner, *_]):  # `enumerate(net.parameters())`
                value = inner
            case _:
                return ""
    around = next((each for each in loops if value.id in target_names(each.target)), None)
    return _root(body, around.iter) if around is not None and value.id not in parameters_of(body.node) else value.id


def _freezing(body: Body, spot: Spot, value: ast.expr) -> Freezing:
    around = spot.around(ast.If)
    loop = next((arm for arm, _ in reversed(spot.arms) if isinstance(arm, ast.For | ast.While)), None)
    guards = [each for each in loop.body if isinstance(each, ast.If)] if loop else []
    passing = [each for each in guards if any(isinstance(inner, ast.Continue) for inner in each.body)]
    conditions = [*around, *(each for each in passing if each not in around)]
    chosen = [each.test for each in conditions] + ([] if isinstance(value, ast.Constant) else [value])
    at = body.place(conditions[-1] if conditions else spot.node)
    return Freezing(
        body.place(spot.node), at, tuple(chosen), body, spot.node, value, body.place(loop) if loop else None
    )
