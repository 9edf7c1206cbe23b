"""Which of its returns gave a function's result, by the type of that."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.source import only
from backsight.source.bindings import Spot, spots
from backsight.source.body import Body, callee, dotted
from backsight.source.definitions import values_of

_OF_TENSORS = frozenset({"to", "cuda", "cpu", "clone", "detach", "contiguous", "float", "half", "double", "bfloat16"})
"""Methods that tensors have, and arrays have not."""

_TO_ARRAYS = frozenset({"numpy", "astype", "tobytes"})


def returned(body: Body, kind: str) -> tuple[ast.Return | None, bool]:
    """Return the statement that may have returned a value of this type, `numpy.ndarray`, and whether no other may have.

    None where several may have, and none is more likely than the others.
    """
    given = last_parameter(body)
    every = [each for each in spots(body.node) if isinstance(each.node, ast.Return)]
    may = [(each.node, _returns(body, each, given, kind)) for each in every]
    sure = [node for node, does in may if does]
    open_ = [node for node, does in may if does is None]
    if (
        kind == "NoneType" and getattr(body.node, "name", "") != "<lambda>"
    ):  # one that ends without a return gives it, too
        open_ = []
    found = sure if len(sure) == 1 else [] if sure else open_
    node = only(found)
    return node if isinstance(node, ast.Return) else None, not (sure and open_)


def last_parameter(body: Body) -> str:
    """The last parameter of a function: of a hook, what it is given."""
    arguments = getattr(body.node, "args", None)
    return arguments.args[-1].arg if isinstance(arguments, ast.arguments) and arguments.args else ""


def _returns(body: Body, spot: Spot, given: str, kind: str) -> bool | None:
    """Whether a return gives a value of this type; None where its text does not tell."""
    value = spot.node.value if isinstance(spot.node, ast.Return) else None
    if value is None or isinstance(value, ast.Constant):
        return type(getattr(value, "value", None)).__name__ == kind
    return _is(body, spot, value, given, kind)


_DISPLAYS = ((ast.Tuple, "tuple"), ((ast.List, ast.ListComp), "list"), ((ast.Dict, ast.DictComp), "dict"))


def _is(body: Body, spot: Spot, value: ast.expr, given: str, kind: str) -> bool | None:
    for display, name in _DISPLAYS:
        if isinstance(value, display):
            return name == kind
    is_array = kind == "numpy.ndarray"
    if isinstance(value, ast.Name):
        values = values_of(body, value.id, spot.node.lineno)
        if len(values) == 1 and value.id != given:
            return _is(body, spot, values[0], given, kind)
        return _guarded(body, spot, given, kind) if value.id == given and not values else None
    if not isinstance(value, ast.Call):
        return None
    receiver, name = callee(value)
    root = (dotted(receiver) or "").partition(".")[0]
    if root in ("np", "numpy"):
        return is_array
    if root == "torch" or name in _OF_TENSORS:
        return False
    return is_array if name in _TO_ARRAYS else None


def _guarded(body: Body, spot: Spot, given: str, kind: str) -> bool | None:
    """Whether what a function was given is of a type where a statement stands, by `isinstance` around or before it."""
    last = kind.rpartition(".")[2]
    for test, holds in _tests(body, spot):
        kinds = _kinds(test, given)
        if kinds and holds and last not in kinds:
            return False
        if kinds and (holds or last in kinds):
            return holds if len(kinds) == 1 or not holds else None
    return None


def _tests(body: Body, spot: Spot) -> Iterator[tuple[ast.expr, bool]]:
    """The conditions that are known where a statement stands: of the blocks around it, and of those before it that
    leave the function; each with whether it holds."""
    for arm, label in reversed(spot.arms):
        if isinstance(arm, ast.If):
            yield arm.test, label == "body"
    for each in spots(body.node):
        node = each.node
        if not isinstance(node, ast.If) or node.orelse or each.order > spot.order or (node, "body") in spot.arms:
            continue
        if isinstance(node.body[-1], ast.Return | ast.Raise) and all(arm in spot.arms for arm in each.arms):
            yield node.test, False


def _kinds(test: ast.expr, given: str) -> set[str]:
    """The types that `isinstance(given, ...)` asks for, by their last names; `torch.is_tensor(given)`: `Tensor`."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            every = [_kinds(each, given) for each in values]
            return set().union(*every) if all(every) else set()
        case ast.Call(args=[subject, *rest]) if dotted(subject) == given:
            if callee(test)[1] == "is_tensor":
                return {"Tensor"}
            if callee(test)[1] == "isinstance" and rest:
                classes = rest[0].elts if isinstance(rest[0], ast.Tuple) else [rest[0]]
                return {(dotted(each) or "").rpartition(".")[2] for each in classes}
        case ast.Compare(left=ast.Call(args=[subject]) as call, ops=[ast.Is() | ast.Eq()], comparators=[kind]):
            if callee(call)[1] == "type" and dotted(subject) == given:
                return {(dotted(kind) or "").rpartition(".")[2]}
    return set()
