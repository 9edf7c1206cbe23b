"""Where the text cuts a value off from autograd: the assignments that lead to it, walked backwards."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from backsight.source.bindings import Spot, prefixes
from backsight.source.body import Body, Place, dotted
from backsight.source.cut_rules import (
    FROZEN,
    Kind,
    Rule,
    carriers,
    gives_indices,
    grad_mode,
    is_inference,
    reads_form,
    rule_of,
)
from backsight.source.definitions import Definition, Flow, flow_of, reaching


@dataclass(frozen=True)
class Cut:
    """An expression that ends the way of a gradient, where it stands, and why it does; `always` or of some values.

    >>> cut.place.line, cut.expression, cut.why
    (12, 'logits.argmax(1)', 'argmax returns integer indices, which have no gradient')
    """

    kind: Kind
    place: Place
    expression: str
    why: str
    always: bool = True


def cuts(body: Body | None, name: str, line: int, enabled: frozenset[int] = frozenset()) -> tuple[Cut, ...]:
    """The cuts between `name`, as it stands at `line`, and what it is computed from; the nearest first.

    `name` is a name, or any expression that stands at that line, as `receiver_of_backward` returns it. The walk stays
    in the function, and ends at a cut. What it finds are candidates: it cannot know which values are tensors, and a
    cut on labels does no harm. `enabled` are the lines of blocks that are known to have enabled gradients.

    >>> [cut.expression for cut in cuts(body, "loss", 14)]
    ['logits.argmax(1)']
    """
    return carried(body, name, line, enabled).cuts if body is not None else ()


class Carried(NamedTuple):
    """What `cuts` walks through: where it ends, and the names that a gradient comes to before that.

    entering: those whose value may come from before the function began.
    """

    cuts: tuple[Cut, ...] = ()
    names: tuple[str, ...] = ()
    entering: frozenset[str] = frozenset()


Opens = Callable[[ast.Call], bool]


def _never(call: ast.Call) -> bool:
    return False


def carried(
    body: Body,
    name: str,
    line: int,
    enabled: frozenset[int] = frozenset(),
    opens: Opens | None = None,
    skipped: frozenset[int] = frozenset(),
) -> Carried:
    """The cuts as `cuts` finds them, and the names that a gradient of `name` comes to, the nearest first.

    Where `opens` says so of a call, the way goes on in the function that it runs, and not to what it is given here.
    `skipped` are the lines of statements that are known not to have run.

    >>> carried(body, "loss", 14).names      # loss = f(model(x), y.argmax(1))
    ('loss', 'model', 'x')
    """
    flow = flow_of(body.node)
    use, root = flow.read_at(body, name, line)
    if use is None:
        return Carried()
    walk = _Walk(body, flow, enabled, opens or _never, skipped)
    if root is not None:
        walk.enter(Definition(use, (root,)))
    else:
        walk.follow(name, use)
    return walk.run()


def lets_through(statement: ast.stmt, name: str) -> bool:
    """Whether the text of `statement` passes the history of `name` on; True where it does not show.

    >>> lets_through(statement, "hidden")       # out, hidden = rnn(x, hidden.detach())
    False
    """
    names = _attached(statement)
    return names is None or any(each == name or each.startswith(f"{name}.") for each in names)


def may_have_history(statement: ast.stmt) -> bool:
    """Whether the text leaves what `statement` assigns a history: not in `h = None`, nor in `h = torch.zeros(1, n)`."""
    return _attached(statement) != []


def _attached(statement: ast.stmt) -> list[str] | None:
    """The names whose history a statement passes on; None where its text does not show them."""
    values = [each for each in (getattr(statement, "value", None), getattr(statement, "iter", None)) if each]
    if not values or isinstance(statement, ast.AugAssign):
        return None
    names: list[str] = []
    for value in values:
        _scan(value, None, [], names, _never)
    return names


class _Walk:
    """A breadth-first walk from a value to the definitions behind it."""

    def __init__(self, body: Body, flow: Flow, enabled: frozenset[int], opens: Opens, skipped: frozenset[int]) -> None:
        self._body = body
        self._skipped = skipped
        self._opens = opens
        self._enabled = enabled
        self._flow = flow
        self._found: dict[tuple[int, str], Cut] = {}
        self._queue: deque[Definition] = deque()
        self._seen: set[tuple[int, int | None, tuple[int, ...]]] = set()
        self._names: dict[str, None] = {}
        self._entering: set[str] = set()

    def run(self) -> Carried:
        while self._queue:
            self._visit(self._queue.popleft())
        return Carried(tuple(self._found.values()), tuple(self._names), frozenset(self._entering))

    def enter(self, definition: Definition) -> None:
        key = (definition.spot.order, definition.position, tuple(id(value) for value in definition.values))
        if key not in self._seen:
            self._seen.add(key)
            self._queue.append(definition)

    def follow(self, name: str, use: Spot) -> None:
        """Enters what `name` may have its value from: `out.loss` is `out`'s unless it was assigned itself."""
        for prefix in reversed(prefixes(name)):
            self._names[prefix] = None
            found, complete = reaching(self._flow, prefix, use)
            for definition in found:
                self.enter(definition)
            if complete:
                return
        self._entering |= {*prefixes(name)}

    def _visit(self, definition: Definition) -> None:
        spot = definition.spot
        if spot.node.lineno in self._skipped:
            return
        if definition.freezes:
            self._add(FROZEN, spot.node, spot.node)
            return
        cutting: list[tuple[ast.expr, Rule]] = []
        names: list[str] = []
        unrecorded = _unrecorded(self._body, spot, self._enabled)
        ends = unrecorded is not None and unrecorded[0].always  # then nothing that it calls is come to
        for value in definition.values:
            _scan(value, definition.position, cutting, names, _never if ends else self._opens)
        if unrecorded is not None and (cutting or names):  # a constant loses nothing
            self._add(*unrecorded)
            if unrecorded[0].always:
                return
        for node, rule in cutting:
            self._add(rule, node, spot.node)
        for name in names:
            self.follow(name, spot)

    def _add(self, rule: Rule, node: ast.expr | ast.stmt, where: ast.expr | ast.stmt) -> None:
        expression = self._body.text(node)
        place = self._body.place(where, f"@{expression}" if isinstance(where, ast.expr) else None)  # a decorator
        cut = Cut(rule.kind, place, expression, rule.why, rule.always)
        self._found.setdefault((where.lineno, expression), cut)


def _scan(
    value: ast.expr, position: int | None, cutting: list[tuple[ast.expr, Rule]], names: list[str], opens: Opens
) -> None:
    """Collects what cuts `value`, and the names that it has its gradient from otherwise."""
    if rule := gives_indices(value, position):
        cutting.append((value, rule))
        return
    nothing: frozenset[str] = frozenset()
    stack = [(value, nothing)]
    while stack:
        node, local = stack.pop()
        rule = rule_of(node)
        if rule:
            cutting.append((node, rule))
        if reads_form(node) or (rule and rule.always):
            continue
        if isinstance(node, ast.Call) and opens(node):
            continue
        name = dotted(node)
        if name is None:
            stack.extend(reversed([(child, local | inner) for child, inner in carriers(node)]))
        elif stop := next((each for each in _chain(node) if rule_of(each) or reads_form(each)), None):
            stack.append((stop, local))
        elif name.split(".")[0] not in local:
            names.append(name)


def _chain(node: ast.expr) -> Iterator[ast.expr]:
    """`x.data` and `x` of `x.data.grad_fn`: what a chain of attributes goes through."""
    while isinstance(node, ast.Attribute):
        node = node.value
        yield node


def _unrecorded(body: Body, spot: Spot, enabled: frozenset[int]) -> tuple[Rule, ast.expr, ast.expr | ast.stmt] | None:
    """Why the statement is not recorded: the rule, the context manager or decorator, and the place of either."""
    contexts: list[tuple[ast.expr, ast.expr | ast.stmt]] = [
        (item.context_expr, around)
        for around, _ in reversed(spot.arms)
        if isinstance(around, ast.With)
        for item in reversed(around.items)
    ]
    contexts += [(decorator, decorator) for decorator in getattr(body.node, "decorator_list", [])]
    lifted = False
    for context, where in contexts:
        mode = grad_mode(context)
        if mode == "on" or where.lineno in enabled:
            if is_inference(context):
                return None
            lifted = True  # which does not end inference mode
        elif mode is not None and (is_inference(context) or not lifted):
            return mode, context, where
    return None
