"""What the objects of a run's JSON files hold: looked at when they are read, so that nothing behind has to.

A checksum tells that an object is what somebody has written, not that it is what a recording writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from backsight.runs.schema import MOST

END_OF_TIME = 253_402_300_799
"""The last second of the year 9999, after which there are no dates."""

MERGES = ("none", "sum", "min", "max", "norm")
"""How the values of a metric merge over ranks and calls; "norm" is the root of the sum of squares."""

Check = Callable[[Any], bool]
Members = Mapping[str, Check]


def _whole(least: int = -MOST, most: int = MOST) -> Check:
    return lambda value: type(value) is int and least <= value <= most


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _sizes(value: Any) -> bool:
    return type(value) is list and all(map(_whole(), value))


def _text(value: Any) -> bool:
    return type(value) is str


def _flag(value: Any) -> bool:
    return type(value) is bool


def _object(value: Any) -> bool:
    return type(value) is dict


def _moment(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value <= END_OF_TIME


def _merge(value: Any) -> bool:
    return _text(value) and value in MERGES


MANIFEST: Members = {
    "version": _whole(1),
    "rank": _whole(0),
    "world": _whole(1),
    "job": _or_null(_text),
    "created": _moment,
    "config": _object,
    "environment": _object,
}
TENSOR: Members = {
    "id": _whole(0),
    "name": _text,
    "kind": _text,
    "module": _or_null(_text),
    "shape": _or_null(_sizes),
    "dtype": _or_null(_text),
    "replicated": _flag,
}
METRIC: Members = {"id": _whole(0), "name": _text, "merge": _merge}
NUMBER: Members = {"id": _whole(0), "name": _text}
MARK: Members = {"step": _whole(), "tags": _object}
EVENT: Members = {"event": _text, "step": _or_null(_whole()), "time": _moment, "details": _object}


def wrong(held: Mapping[str, Any], members: Members) -> str | None:
    """Return the first member that is missing, or not what a recording writes; None if all are right."""
    return next((name for name, check in members.items() if not check(held.get(name, _Missing))), None)


class _Missing:
    """What no check accepts."""


def modules(tree: Any) -> list[dict[str, Any]] | None:
    """Return the nodes of a tree of modules, as the table in docs/format.md has them; None if it is no list.

    What is no node is left out, with all inside of it; what a node lacks is empty.
    """
    if type(tree) is not list:
        return None
    roots: list[dict[str, Any]] = []
    waiting = [(each, roots) for each in reversed(tree)]
    while waiting:
        given, siblings = waiting.pop()
        if type(given) is not dict or not _text(given.get("name")) or not _text(given.get("type")):
            continue
        node = {"name": given["name"], "type": given["type"], "parameters": _parameters(given), "children": []}
        if _text(given.get("same_as")):
            node["same_as"] = given["same_as"]
        siblings.append(node)
        inside = given.get("children")
        waiting += [(each, node["children"]) for each in reversed(inside)] if type(inside) is list else []
    return roots


def _parameters(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    held = node.get("parameters")
    return [
        each
        for each in (held if type(held) is list else ())
        if type(each) is dict and _text(each.get("name")) and _flag(each.get("requires_grad"))
    ]
