"""Where a pass through a function or a loop ends early, between two of its statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.source.bindings import are_alternatives, spots
from backsight.source.body import LOOPS, Body, Place, begins


def exits(body: Body, first: Place, last: Place) -> Iterator[Place]:
    """Yield each `return`, `continue` and `break` between two statements that skips the second one, and the last
    statement of each `except` around both that goes on: an exception in between skips it, too.

    >>> [place.text for place in exits(body, unscaled, updated)]
    ['continue']
    """
    every = spots(body.node)
    end = next((each for each in every if begins(each.node) == last.position), None)
    if end is None:
        return
    loop = end.around(*LOOPS)[-1:]
    for each in every:
        same = bool(loop) and each.around(*LOOPS)[-1:] == loop
        leaves = isinstance(each.node, ast.Return) or (isinstance(each.node, ast.Continue | ast.Break) and same)
        if leaves and first.position < begins(each.node) < last.position:
            place = body.place(each.node)
            if not are_alternatives(body, first, place):
                yield place
    start = next((each for each in every if begins(each.node) == first.position), None)
    for around, label in end.arms:
        if isinstance(around, ast.Try) and label == "body" and start is not None and (around, label) in start.arms:
            for handler in around.handlers:
                if not isinstance(handler.body[-1], ast.Raise):
                    yield body.place(handler.body[-1])
