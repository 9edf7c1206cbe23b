"""Operations whose gradient may be infinite: where a NaN in the weights may have come from, once its graph is gone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import NamedTuple

from backsight.diagnosis.amending import functional, instead
from backsight.diagnosis.births.birth import replaced, root_kept_away
from backsight.source import Place, only, read_at
from backsight.source.body import callee, expressions, given_to
from backsight.story.evaluated import value_of
from backsight.story.failure import stack
from backsight.story.memory import is_tensor
from backsight.tape import Edge, Graph, Node
from backsight.tape.saved import is_readable
from backsight.tracing import current

_AT = {
    "Sqrt": "at 0",
    "Rsqrt": "at 0",
    "Log": "at 0",
    "Log2": "at 0",
    "Log10": "at 0",
    "Xlogy": "at 0",
    "Logit": "at 0 and 1",
    "Acos": "at -1 and 1",
    "Asin": "at -1 and 1",
    "Acosh": "at 1",
    "Atanh": "at -1 and 1",
    "Atan2": "at 0, 0",
    "Reciprocal": "at 0",
    "Div": "where it divides by 0",
}

_AT_ZERO = frozenset(op for op, at in _AT.items() if at == "at 0")
_NAN_BELOW_0 = frozenset({"sqrt", "rsqrt", "log", "log2", "log10"})
_GUARDS = frozenset({"Exp", "Softplus"})
_CLAMPS = frozenset({"ClampMin", "Clamp"})
_SAME_VALUES = frozenset({"Expand", "View", "Unsqueeze", "Squeeze", "Transpose", "Permute", "T", "UnsafeView"})

_MOST = 8


class Singular(NamedTuple):
    """An operation, where its gradient is infinite, and the statement that computes it.

    is_free: whether it is computed of a parameter itself, which may become any number.
    """

    op: str
    at: str
    place: Place
    is_free: bool = False

    @property
    def may_be_negative(self) -> bool:
        """Whether it may be NaN itself, of a negative number."""
        return self.is_free and self.op in _NAN_BELOW_0


def singular(graph: Graph) -> list[Singular]:
    """Return such operations of a graph whose lines a watch has noted, in the order of the forward pass.

    A division by what requires no gradient is mostly one by a number.
    """
    watch = current()
    nodes = sorted((n for n in graph.nodes if n.op in _AT and _is_open(n)), key=lambda n: n.sequence or 0)
    found: dict[tuple[str, str], Singular] = {}
    for node in nodes if watch is not None else ():
        line = watch.line_of(node) if watch is not None else None
        if line is not None:
            found.setdefault((node.op, str(line.place)), _of(node, line.place))
    return list(found.values())[:_MOST]


def _of(node: Node, place: Place) -> Singular:
    operand = _without_views(node.inputs[0] if node.inputs else None)
    return Singular(node.op.lower(), _AT[node.op], place, operand is not None and operand.leaf is not None)


def may_be_infinite(each: Singular) -> str:
    """Say that an operation has an infinite gradient somewhere."""
    if each.may_be_negative:
        return f"computes {each.op} of a parameter: it is NaN below 0, and its gradient is infinite {each.at}."
    return f"computes {each.op}, whose gradient is infinite {each.at}."


class Touched(NamedTuple):
    """An operation whose gradient was infinite: what it was computed of, the number that it was, and how often."""

    by: Singular
    operand: str
    number: float
    times: int
    of: int


def touched(found: Sequence[Singular], frame: FrameType | None) -> Iterator[Touched]:
    """Yield those of some operations whose operand, in a variable of a function that runs, is where it must not be."""
    levels = list(stack(frame))
    for each in found:
        body, statement = read_at(each.place)
        level = next((at for at in levels if body is not None and at.body and at.body.node is body.node), None)
        operand = only(of for node in expressions(statement) if (of := _operand(node, each.op)) is not None)
        value = value_of(level, operand) if level is not None and operand is not None else None
        if body is None or operand is None or not is_tensor(value) or not is_readable(value):
            continue
        for number in _NUMBERS.get(each.at, ()):
            times = int((value.detach() == number).sum())
            if times:
                yield Touched(each, body.text(operand), number, times, value.numel())
                break


_NUMBERS = {"at 0": (0,), "where it divides by 0": (0,), "at 0 and 1": (0, 1), "at -1 and 1": (-1, 1), "at 1": (1,)}


def kept_away(found: Sequence[Singular]) -> str:
    """Say how the only operation that may have done it is written to keep from doing it."""
    if len(found) != 1:
        return ""
    op, at, place, _ = found[0]
    body, statement = read_at(place)
    every = [(node, of) for node in expressions(statement) if (of := _operand(node, op)) is not None]
    written, inner = (
        (ast.unparse(each) for each in every[0]) if len(every) == 1 else (_PLAIN.get(op, f"torch.{op}(x)"), "")
    )
    inner = inner or ("b" if op == "div" else "x")

    def edit(new: str) -> str:
        return instead(body, statement, {every[0][0]: new}) if new and len(every) == 1 else ""

    late = " torch.where around its result is too late." if statement is not None and _chooses(statement) else ""
    if found[0].may_be_negative:
        new = replaced(written, inner, f"F.softplus({inner})")
        positive = f"{new or f'F.softplus({inner})'}{edit(new)}{functional(place.file) if edit(new) else ''}"
        return f"Nothing keeps a parameter from becoming negative; softplus does: {positive}.{late} "
    if op == "sqrt":
        return f"{root_kept_away(written, inner, edit)}{late} "
    simple = inner if re.fullmatch(r"[\w.\[\], ]+", inner) else f"({inner})"
    clamp = "clamp_min(1e-12)" if at in ("at 0", "where it divides by 0") else "clamp(-1 + 1e-6, 1 - 1e-6)"
    clamp = {"logit": "clamp(1e-6, 1 - 1e-6)", "acosh": "clamp_min(1 + 1e-6)"}.get(op, clamp)
    new = replaced(written, inner, f"{simple}.{clamp}")
    what = "what it divides by" if op == "div" else f"the input of {op}"
    return f"Keep {what} away from there: {new or f'{simple}.{clamp}'}{edit(new)}.{late} "


_PLAIN = {"div": "a / b"}
"""How an operation is written where the program's text does not show it."""


def _operand(node: ast.expr, op: str) -> ast.expr | None:
    """What an expression computes an operation of: `x` of `x.sqrt()` and `torch.sqrt(x)`, `b` of `a / b`."""
    if op == "div" and isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return node.right
    if not isinstance(node, ast.Call) or callee(node)[1] not in (op, "divide" if op == "div" else op):
        return None
    if op in ("div", "atan2", "xlogy"):
        return node.args[-1] if op == "div" and node.args else None
    return next(iter(given_to(node)), None)


def _chooses(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Call) and callee(node)[1] == "where" for node in expressions(statement))


def _is_open(node: Node) -> bool:
    """Whether what is divided by, or the operand, may be where the gradient is infinite: not what was kept from it."""
    if node.op == "Div":
        both = sum(edge is not None for edge in node.inputs) == 2
        return both and not _is_kept_away(node.inputs[1], _GUARDS | _CLAMPS)
    return node.op not in _AT_ZERO or not _is_kept_away(node.inputs[0] if node.inputs else None, _GUARDS)


def _is_kept_away(edge: Edge | None, guards: frozenset[str]) -> bool:
    """Whether an operand was clamped, or a number was added to it, as `F.normalize` and `sqrt(x + eps)` do."""
    node = _without_views(edge)
    if node is None:
        return False
    return node.op in guards or (node.op == "Add" and sum(edge is not None for edge in node.inputs) == 1)


def _without_views(edge: Edge | None) -> Node | None:
    """Return the node that an operand's values come from."""
    node = edge.node if edge is not None else None
    while node is not None and node.op in _SAME_VALUES and node.inputs and node.inputs[0] is not None:
        node = node.inputs[0].node
    return node
