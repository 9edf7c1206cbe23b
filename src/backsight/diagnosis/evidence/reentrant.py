"""The call of a checkpoint that runs its part again inside of backward: `use_reentrant` is not False."""

from __future__ import annotations

import ast
from typing import NamedTuple

from backsight.source import Place, statement_at
from backsight.source.body import callee, is_constant, keyword
from backsight.source.rewriting import rewritten
from backsight.story.failure import Failure
from backsight.story.sections import sections

CHECKPOINTS = frozenset({"checkpoint", "checkpoint_sequential"})


class Reentrant(NamedTuple):
    """The statement of the call, the name of the function, and the statement with use_reentrant=False; empty where that
    is too long."""

    place: Place
    name: str
    mended: str


def reentrant_call(failure: Failure) -> Reentrant | None:
    """Return the nearest call of a reentrant checkpoint on the way to what backward was run on."""
    for section in sections(failure):
        for call, place in section.calls():
            name, given = callee(call)[1], keyword(call, "use_reentrant")
            if name not in CHECKPOINTS or is_constant(given, False):
                continue
            statement, text = statement_at(section.body, *place.position), section.body.text(call)
            new = f"{text[:-1].rstrip(', ')}, use_reentrant=False)"
            change: dict[ast.expr, str] = {given: "False"} if given else {call: new}
            known = statement is not None and "…" not in text
            return Reentrant(place, name, rewritten(section.body, statement, change) if statement and known else "")
    return None
