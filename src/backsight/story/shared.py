"""A property that returns a tensor of its object, or what shares its memory: where that is to return a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from backsight.source import Place, function_at
from backsight.source.body import statements
from backsight.source.changes import memory_of
from backsight.source.definitions import values_of
from backsight.source.rewriting import rewritten
from backsight.story.sections import Section, property_of


class Shared(NamedTuple):
    """The statement of a property that returns a tensor's memory, what it calls that, its value, and the same statement
    with a copy."""

    place: Place
    name: str
    value: object
    mended: str

    @property
    def written(self) -> str:
        return f"`{self.mended}` on line {self.place.line}" if self.mended else ""


def shared_by(section: Section, name: str) -> Iterator[Shared]:
    """Yield what a property returns by the memory that it has, `self.bank` for `self.queue.negatives`, where that
    returns `self.bank.detach()`; nothing for a name that is no property's."""
    path, _, attribute = name.rpartition(".")
    owner = section.value(path) if path else None
    function = property_of(type(owner), attribute) if owner is not None else None
    body = function_at(function.__code__) if function is not None else None
    if function is None or body is None:
        return
    inside = Section(body, (), {function.__code__.co_varnames[0]: owner}, function.__globals__)
    for each in statements(body.node):
        returned = each.value if isinstance(each, ast.Return) else None
        held = memory_of(returned) if returned is not None else None
        if returned is None or held is None:
            continue
        made = values_of(body, held, each.lineno) if "." not in held else []
        held = (memory_of(made[0]) or held) if len(made) == 1 else held
        copied = rewritten(body, each, {returned: f"{body.text(returned)}.clone()"})
        yield Shared(body.place(each), held, inside.value(held), copied)
