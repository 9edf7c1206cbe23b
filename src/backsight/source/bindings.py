"""Which names a statement reads and which it binds; `self.hidden` is a name too."""

from __future__ import annotations

import ast
from collections.abc import Iterator, KeysView
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

from backsight.source.body import SCOPES, Body, Place, Scope, blocks, body_around, dotted, expressions, statements
from backsight.source.cells import other_cells

_Block = TypeVar("_Block", bound=ast.stmt)
_Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

FUNCTIONS = (ast.FunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Use(NamedTuple):
    """One name that is read, or bound."""

    name: str
    binds: bool


@dataclass(frozen=True, eq=False)
class Spot:
    """A statement of a function, its rank in source order, and the blocks around it, outermost first."""

    node: ast.stmt
    order: int
    arms: tuple[tuple[ast.stmt, str], ...]

    def around(self, *kinds: type[_Block]) -> list[_Block]:
        """The statements of some kinds whose blocks are around it, outermost first."""
        return [arm for arm, _ in self.arms if isinstance(arm, kinds)]

    @cached_property
    def branches(self) -> tuple[tuple[ast.stmt, str], ...]:
        """The blocks around it that may be skipped: a `with` block never is."""
        return tuple(arm for arm in self.arms if not isinstance(arm[0], ast.With))


def assignments(body: Body | None, name: str, before: int | None = None) -> tuple[Place, ...]:
    """The statements that bind `name`, those that start before line `before`, in source order.

    >>> [str(place) for place in assignments(body, "hidden", before=41)]
    ['train.py:12', 'train.py:38']
    """
    if body is None:
        return ()
    return tuple(
        body.place(statement)
        for statement in statements(body.node)
        if (before is None or statement.lineno < before) and name in bound(statement)
    )


def rebinding(file: str, line: int, name: str, operand: int | None = None) -> Place | None:
    """The first statement, in the function around `line`, that computes `name` from `name`: `x = x / 2`, `x += 1`.

    >>> rebinding("train.py", 41, "delta").text
    'delta = delta / y_pred'

    `operand`, 0 or 1, asks for the side of a binary operation on which `name` is read: 0 in `x = x / y`. At the top
    level of a notebook's cell, the other cells are looked through too.
    """
    body = body_around(file, line)
    if body is None:
        return None
    others = other_cells(file) if isinstance(body.node, ast.Module) else []
    bodies = chain([body], filter(None, (body_around(other, 0) for other in others)))
    found = (place for each in bodies for place in _rebindings(each, name, operand))
    return next(found, None)


def _rebindings(body: Body, name: str, operand: int | None) -> Iterator[Place]:
    for statement in statements(body.node):
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            found = uses(statement)
            if Use(name, True) in found and Use(name, False) in found and _reads_at(statement, name, operand):
                yield body.place(statement)


def _reads_at(statement: ast.Assign | ast.AnnAssign | ast.AugAssign, name: str, operand: int | None) -> bool:
    """Whether `name` is read in that operand; True for what is no binary operation, and if None is asked for."""
    if operand is None:
        return True
    if isinstance(statement, ast.AugAssign):
        return operand == 0 or reads(statement.value, name)
    if isinstance(statement.value, ast.BinOp):
        return reads((statement.value.left, statement.value.right)[operand], name)
    return True


def spots(scope: Scope | Body | None) -> list[Spot]:
    """Every statement of `scope` with the blocks around it, in source order; none of one that cannot be read."""
    scope, found = scope.node if isinstance(scope, Body) else scope, list[Spot]()
    block = scope.body if scope is not None else ()
    stack: list[tuple[ast.stmt, tuple[tuple[ast.stmt, str], ...]]] = [(each, ()) for each in reversed(block)]
    while stack:
        statement, arms = stack.pop()
        found.append(Spot(statement, len(found), arms))
        if not isinstance(statement, SCOPES):
            inner = [(child, (*arms, (statement, label))) for label, block in blocks(statement) for child in block]
            stack.extend(reversed(inner))
    return found


def are_alternatives(body: Body, one: Place, other: Place) -> bool:
    """Whether two statements stand in different arms of one `if` or `match`: a single pass runs only one of them.

    >>> are_alternatives(body, Place("train.py", 12, ""), Place("train.py", 14, ""))
    True
    """
    found = {each.node.lineno: dict(each.arms) for each in spots(body.node)}
    mine, theirs = found.get(one.line, {}), found.get(other.line, {})
    shared = [each for each in mine if each in theirs and isinstance(each, ast.If | ast.Match)]
    return any(mine[each] != theirs[each] for each in shared)


def arms_of(body: Body | None, statement: ast.stmt | None) -> tuple[tuple[ast.stmt, str], ...]:
    """The blocks around a statement of a function, outermost first."""
    return next((each.arms for each in spots(body) if each.node is statement), ())


def bound(statement: ast.stmt | None) -> set[str]:
    """The names that the statement itself binds."""
    return {use.name for use in uses(statement) if use.binds}


def names_read(*nodes: ast.AST | None) -> KeysView[str]:
    """The names that some nodes read, in the order of evaluation."""
    return {use.name: None for node in nodes for use in uses(node) if not use.binds}.keys()


def reads(node: ast.AST | None, name: str) -> bool:
    """Whether a node reads a name."""
    return Use(name, False) in uses(node)


def targets(statement: ast.stmt | None) -> Iterator[tuple[ast.expr, ast.expr, int | None]]:
    """Yield every target of a statement, each with the expression that it is bound to: of an assignment, of a loop, of
    `with ... as`, of `:=`; with its place in a value that has all of them.

    >>> [(ast.unparse(target), position) for target, _, position in targets(statement)]     # a, (b, *c) = d = f(x)
    [('a', 0), ('b', None), ('c', None), ('d', None)]
    """
    match statement:
        case ast.Assign(targets=every, value=value):
            for target in every:
                yield from unpacked(target, value)
        case ast.AugAssign(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value, None
        case ast.For(target=target, iter=value):
            for part, items in _looped(target, value):
                yield from ((each, items, None) for each, _, _ in unpacked(part, items))
        case ast.With(items=items):
            for item in items:
                if item.optional_vars:
                    yield from unpacked(item.optional_vars, item.context_expr)
    for node in expressions(statement):
        if isinstance(node, ast.NamedExpr):
            yield node.target, node.value, None


def _looped(target: ast.expr, items: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a loop gives values to, each with what it goes through: both of `for a, b in zip(xs, ys)`."""
    match target, items:
        case ast.Tuple(elts=parts), ast.Call(func=ast.Name(id="zip"), args=every) if len(parts) == len(every):
            if not any(isinstance(each, ast.Starred) for each in (*parts, *every)):
                yield from zip(parts, every, strict=True)
                return
        case ast.Tuple(elts=[number, rest]), ast.Call(func=ast.Name(id="enumerate") as counts, args=[every, *_]):
            yield number, counts  # a number comes of none of the items
            yield from _looped(rest, every)
            return
    yield target, items


def assigned(statement: ast.stmt | None) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what a statement gives values to, each with its value: of `best, state = loss, net.state_dict()` both."""
    if not isinstance(statement, ast.AugAssign | ast.For | ast.With):
        yield from ((target, value) for target, value, position in targets(statement) if position is None)


def unpacked(
    target: ast.expr, value: ast.expr, position: int | None = None
) -> Iterator[tuple[ast.expr, ast.expr, int | None]]:
    """Yield the targets in a target, each with its value; with its place in a value that has all of them."""
    if isinstance(target, ast.Starred):
        yield from unpacked(target.value, value)
    elif not isinstance(target, ast.Tuple | ast.List):
        yield target, value, position
    elif isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
        for each, its_value in zip(target.elts, value.elts, strict=True):
            yield from unpacked(each, its_value)
    else:
        for number, each in enumerate(target.elts):
            yield from unpacked(each, value, number if position is None else None)


def stored_arguments(body: Body) -> Iterator[tuple[str, str]]:
    """The attributes in which a method keeps what it is given, each with the parameter: `self.base = base`."""
    given = {each.arg for each in body.node.args.args} if isinstance(body.node, ast.FunctionDef) else set()
    for each in statements(body.node):
        for target, value in assigned(each):
            if isinstance(target, ast.Attribute) and isinstance(value, ast.Name) and value.id in given:
                yield target.attr, value.id


def prefixes(name: str) -> list[str]:
    """`"self.rnn.hidden"` as `["self", "self.rnn", "self.rnn.hidden"]`: to read it is to read each of them."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def uses(root: ast.AST | None) -> tuple[Use, ...]:
    """The names that `root` reads and binds, in the order of evaluation, without those of a statement's blocks.

    Names local to a comprehension or a nested function stay inside it; what these read from outside counts as read
    where they are written.
    """
    if root is None:
        return ()
    # The node keeps them: each search for a cause asks all statements again. A copy, which may be changed, has its own.
    kept: tuple[int, tuple[Use, ...]] | None = vars(root).get(_USES)
    if kept is None or kept[0] != id(root):
        kept = id(root), tuple(_uses(root))
        setattr(root, _USES, kept)
    return kept[1]


_USES = "_backsight_uses"


def _uses(root: ast.AST) -> list[Use]:
    found: list[Use] = []
    stack: list[tuple[ast.AST, frozenset[str]]] = [(root, frozenset())]
    while stack:
        node, local = stack.pop()
        name = dotted(node)
        if name is not None:
            if name.split(".")[0] not in local:
                found.extend(_name_uses(node, name))
        elif isinstance(node, COMPREHENSIONS):
            first, *others = _comprehension_parts(node)
            inner = local | target_names(*(generator.target for generator in node.generators))
            stack.extend((child, inner) for child in reversed(others))
            stack.append((first, local))
        else:
            if isinstance(node, ast.Lambda):
                local = local | parameters_of(node)
            elif isinstance(node, SCOPES):
                found.extend(use for use in _closure_reads(node) if use.name.split(".")[0] not in local)
            found.extend(Use(each, True) for each in _plain_bindings(node))
            stack.extend((child, local) for child in reversed(_parts(node)))
    return found


def target_names(*targets: ast.expr) -> frozenset[str]:
    """The plain names in some expressions, such as targets of assignments."""
    return frozenset(node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))


def _name_uses(node: ast.AST, name: str) -> Iterator[Use]:
    context = getattr(node, "ctx", None)
    read = prefixes(name) if isinstance(context, ast.Load) else prefixes(name)[:-1]
    yield from (Use(each, False) for each in read)
    if isinstance(context, ast.Store):
        yield Use(name, True)


def _parts(node: ast.AST) -> list[ast.AST]:
    """The children that are evaluated with `node`, in that order: values before targets, no annotations, no blocks."""
    match node:
        case ast.Assign(targets=targets, value=value):
            return [value, *targets]
        case ast.AugAssign(target=target, value=value):
            return [_loaded(target), value, target]
        case ast.AnnAssign(target=target, value=value):
            return [value, target] if value else []
        case ast.For(target=target, iter=value):
            return [value, target]
        case ast.NamedExpr(target=target, value=value):
            return [value, target]
        case ast.FunctionDef(decorator_list=decorators):
            return [*decorators, node.args]
        case ast.arguments(defaults=defaults, kw_defaults=keyword_defaults):
            return [*defaults, *(each for each in keyword_defaults if each)]
    return [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _loaded(target: ast.expr) -> ast.expr:
    """The target of `x += 1` as it is read: the same expression in a load context."""
    match target:
        case ast.Name(id=name):
            return ast.copy_location(ast.Name(name, ast.Load()), target)
        case ast.Attribute(value=value, attr=attr):
            return ast.copy_location(ast.Attribute(value, attr, ast.Load()), target)
    return target


def _comprehension_parts(node: _Comprehension) -> list[ast.AST]:
    parts: list[ast.AST] = []
    for generator in node.generators:
        parts += [generator.iter, *generator.ifs]
    return parts + ([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])


def _plain_bindings(node: ast.AST) -> list[str]:
    """Names that the syntax tree holds as bare strings."""
    match node:
        case ast.alias(name=name, asname=alias):
            return [alias or name.split(".")[0]]
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.ExceptHandler(name=str(name)):
            return [name]
    return []


def declared(scope: Scope) -> set[str]:
    """The names that a function declares `global` or `nonlocal`."""
    every = (each for each in statements(scope) if isinstance(each, ast.Global | ast.Nonlocal))
    return {name for each in every for name in each.names}


def parameters_of(scope: ast.AST) -> frozenset[str]:
    """The names of what a function is given; none of a class body or a module."""
    if not isinstance(scope, FUNCTIONS):
        return frozenset()
    arguments = scope.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return frozenset(each.arg for each in every if each)


def _closure_reads(scope: ast.FunctionDef | ast.ClassDef) -> list[Use]:
    """What a nested function or class reads from outside; what it binds, it binds when it is called, not here."""
    inner = [use for statement in statements(scope) for use in uses(statement)]
    own = {use.name for use in inner if use.binds} - declared(scope)
    if isinstance(scope, FUNCTIONS):
        own |= parameters_of(scope)
    return [use for use in inner if not use.binds and use.name.split(".")[0] not in own]
