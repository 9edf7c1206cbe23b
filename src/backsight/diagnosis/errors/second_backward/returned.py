"""Two losses that one call has returned, `{"g": loss_g, "d": loss_d}`: its text tells what is computed for both."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from backsight.source import Body, Place, assignments, only, parsed, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, names_read, spots
from backsight.source.body import calls_in, dotted, expressions, is_stored, statements
from backsight.source.definitions import values_of
from backsight.source.edits import on_line, put_at
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.holders import results_in
from backsight.story.memory import is_module
from backsight.story.scenes import called_function
from backsight.story.sections import Section, section_of


@dataclass(frozen=True, eq=False)
class Returned:
    """The statement of the caller, and the function that it ran, with what that returned for the loss whose backward
    failed, and for the other, which ran backward before."""

    call: Place
    section: Section
    loss: ast.expr
    other: ast.expr

    @property
    def body(self) -> Body:
        return self.section.body

    def _lines(self, loss: ast.expr) -> set[int]:
        """The lines of the statements that may take part in a loss."""
        every = ancestors(self.body, self.body.text(loss), loss.lineno).values()
        return {place.line for each in every for place in each.bound}

    @cached_property
    def _own(self) -> set[int]:
        """Those that take part in the loss that failed alone."""
        return self._lines(self.loss) - self._lines(self.other)

    @cached_property
    def shared(self) -> dict[int, ast.stmt]:
        """The statements that take part in both losses, by their lines."""
        both = self._lines(self.loss) & self._lines(self.other)
        return {each.lineno: each for each in statements(self.body.node) if each.lineno in both}

    def _bound(self, lines: Collection[int]) -> set[str]:
        return {name for line in lines for name in bound(self.shared[line])}

    @cached_property
    def _parameters(self) -> dict[int, set[int] | None]:
        """The ids of the parameters by which each of these was computed; None where that is not known."""
        return {line: self._parameters_of(line) for line in self.shared}

    def _parameters_of(self, line: int) -> set[int] | None:
        lines, found = {line}, set[int]()
        for name in names_read(self.shared[line]):
            behind = ancestors(self.body, name, line).values()
            lines |= {place.line for each in behind for place in each.bound} & set(self.shared)
        for call in (call for each in lines for call in calls_in(self.shared[each])):
            value = value_of(self.section, call.func)
            if is_module(value):
                found |= {id(each) for each in value.parameters()}
            elif called_function(self.section, call) is not None:
                return None
        return found

    @property
    def variables(self) -> list[str]:
        """What both losses are computed from by some module, the last first; what is only taken apart of that, as by
        `chunk`, where no shared statement calls one."""
        every = [line for line, each in self._parameters.items() if each]
        made = [line for line in every if any(map(self._runs_module, calls_in(self.shared[line])))] or every
        return [name for line in sorted(made, reverse=True) for name in sorted(self._bound([line]))]

    def _runs_module(self, call: ast.Call) -> bool:
        return is_module(value_of(self.section, call.func)) or called_function(self.section, call) is not None

    def apart(self, trained: Collection[int]) -> tuple[str, list[str]]:
        """Say how to compute the loss that failed from what its own optimizer does not train, detached, and from what
        it does, anew; and which variables are detached. Empty where the text does not tell.

        trained: the ids of what its optimizer trains.
        """
        used = self._parameters
        again = [self.shared[line] for line, each in used.items() if each and not each.isdisjoint(trained)]
        cut = self._bound([line for line, each in used.items() if each and each.isdisjoint(trained)])
        made = {name for each in again for name in bound(each)}
        rest = [each for each in statements(self.body.node) if each not in again]
        reading = [each for each in rest if each.lineno in self._own and names_read(each) & (cut | made)]
        if None in used.values() or not cut or not reading or names_read(self.loss) & (cut | made):
            return "", []
        arms, first = {each.node.lineno: each.arms for each in spots(self.body.node)}, reading[0]
        below = [each for each in rest if each.lineno > first.lineno and each.lineno not in self._own]
        below = [each for each in below if made & names_read(each) or bound(each) & made]
        if (again and below) or any(arms[each.lineno] != arms[first.lineno] for each in again):
            return "", []
        copies = "\n".join(self._detached(each, cut) for each in again)
        parts = [put_at(copies, "above", self.body.place(first))] * bool(again)
        parts += [
            on_line(self.body.place(each), self._detached(each, cut)) for each in reading if names_read(each) & cut
        ]
        inside = [name for each in (*again, *reading) for name in names_read(each) if name in cut]
        return " and ".join(parts) if all(parts) else "", list(dict.fromkeys(inside))

    def _detached(self, statement: ast.stmt, names: Collection[str]) -> str:
        nodes = [each for each in expressions(statement) if dotted(each) in names and not is_stored(each)]
        return rewritten(self.body, statement, {each: f"{dotted(each)}.detach()" for each in nodes})


def returned(level: Level, loss: str, other: str) -> Returned | None:
    """Return the call that has returned both losses; None where there is none, or where what it was given, or finds in
    its objects, has a graph already."""
    found, beside = _returned(level, loss), _returned(level, other)
    if found is None or beside is None or found[0] != beside[0]:
        return None
    call, section, expression = found
    both = Returned(call, section, expression, beside[2])
    every = ancestors(section.body, section.body.text(expression), expression.lineno).values()
    entering = [section.value(each.name) for each in every if each.entering]
    return None if any(results_in(each) for each in entering if not is_module(each)) else both


def _returned(level: Level, name: str) -> tuple[Place, Section, ast.expr] | None:
    """Which statement has called which function of the user's for a variable, or an item of one, and what that returned
    there."""
    node, outer = parsed(name), section_of(level)
    key = node.slice.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) else None
    base = dotted(node.value if isinstance(node, ast.Subscript) else node)
    place = next(reversed(assignments(level.body, base, before=level.line)), None) if base and level.body else None
    statement = statement_at(level.body, *place.position) if place else None
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call) or outer is None:
        return None
    names = [dotted(each) for each in getattr(statement.targets[0], "elts", ())]
    key = names.index(base) if base in names and key is None else key
    section = called_function(outer, statement.value)
    result = only([each for each in statements(section.body.node) if isinstance(each, ast.Return)]) if section else None
    value = result.value if result else None
    if isinstance(value, ast.Name) and section is not None:
        value = only(values_of(section.body, value.id, value.lineno))
    match value:
        case ast.Dict(keys=keys, values=values):
            of = {each.value: at for each, at in zip(keys, values, strict=True) if isinstance(each, ast.Constant)}
        case ast.Tuple(elts=values) | ast.List(elts=values):
            of = dict(enumerate(values))
        case _:
            of = {}
    return (place, section, of[key]) if place and section and key in of else None
