"""Where a pass through a function or a loop ends early, between two of its statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.source.bindings import Spot, are_alternatives, spots
from backsight.source.body import LOOPS, Body, Place


def exits(body: Body, first: Place, last: Place) -> Iterator[Place]:
    """Yield each `return`, `continue` and `break` between two statements that skips the second one, and the last
    statement of each `except` around both that goes on: an exception in between skips it, too.

    >>> [place.text for place in exits(body, unscaled, updated)]
    ['continue']
    """
    every = spots(body.node)
    end = next((each for each in every if _position(each) == last.position), None)
    if end is None:
        return
    for each in every:
        leaves = isinstance(each.node, ast.Return) or (
            isinstance(each.node, ast.Continue | ast.Break) and _loop(each) is not None and _loop(each) is _loop(end)
        )
        if leaves and first.position < _position(each) < last.position:
            place = body.place(each.node)
            if not are_alternatives(body, first, place):
                yield place
    start = next((each for each in every if _position(each) == first.position), None)
    for around, label in end.arms:
        if isinstance(around, ast.Try) and label == "body" and start is not None and (around, label) in start.arms:
            for handler in around.handlers:
                if not isinstance(handler.body[-1], ast.Raise):
                    yield body.place(handler.body[-1])


def _position(spot: Spot) -> tuple[int, int]:
    return spot.node.lineno, spot.node.col_offset


def _loop(spot: Spot | None) -> ast.stmt | None:
    """The innermost loop around a statement."""
    return next((arm for arm, _ in reversed(spot.arms) if isinstance(arm, LOOPS)), None) if spot else None
