"""A variable of a function that still runs, which holds a result from before."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from backsight.diagnosis.evidence.case import Case, loops
from backsight.diagnosis.evidence.holders import below, made_in, needs_saved, results_in
from backsight.diagnosis.evidence.joints import Joint
from backsight.diagnosis.wording import listed
from backsight.source import LoopFacts, Place, assignments, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, uses
from backsight.source.body import SCOPES, expressions, statements
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.tracing.steps import parameters


@dataclass(frozen=True, eq=False)
class Local:
    """A variable of a function that is still running, which holds the old result: it was made in this very call.

    place: the statement that made it. loop: the loop around the failing line that does not contain that statement.
    inner: a function that reads it from outside, and has run backward.
    first: the statement after it that read it, and may have run the earlier backward.
    beside: what else that function reads of this call, each an old result, with the statement that made it.
    """

    case: Case
    level: Level
    name: str
    place: Place
    loop: LoopFacts | None
    inner: str
    first: Place | None
    beside: Mapping[str, Place]

    @property
    def nodes(self) -> set[int]:
        """The nodes of the graph that made what is to be computed anew."""
        held = (self.level.value(name) for name in (self.name, *self.beside))
        return {node for value in held for node in made_in(self.case.graph, value)}

    @property
    def fix(self) -> str:
        name = self.name
        if self.inner and (self.first is None or self.loop is not None):
            return (
                f"{_moved(self.level, {**self.beside, name: self.place}, self.inner)}, which runs backward on "
                f"{'them' if self.beside else 'it'} each time it is called."
            )
        if self.first is None:
            return f"Add the losses and call backward once, or compute {name} a second time for the second backward()."
        detached = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.(])", f"{name}.detach()", self.first.text)
        if self._is_for_others:
            return f"Its optimizer does not train what computes {name}. On line {self.first.line}, write {detached}."
        return (
            f"If line {self.first.line} should not train what computes {name}, write {detached}. If it should, add "
            "the losses and call backward once."
        )

    @property
    def _is_for_others(self) -> bool:
        """Whether the first statement has an optimizer, which trains nothing of what the result was computed from."""
        statement = statement_at(self.level.body, *self.first.position) if self.first else None
        held = [value_of(self.level, node) for node in expressions(statement)] if statement else []
        trained = {id(p) for each in held if isinstance(each, torch.optim.Optimizer) for p in parameters(each)}
        graph = self.case.graph
        nodes = set(below(graph, made_in(graph, self.level.value(self.name))))
        leaves = {id(leaf.tensor()) for leaf in graph.leaves if leaf.node in nodes}
        return bool(trained) and not trained & leaves


def _moved(level: Level, made: Mapping[str, Place], inner: str) -> str:
    """Say which lines are to be moved so that the names have a new graph each time: what they are computed from goes
    along. Where the function itself reads one of them, the lines are to be repeated."""
    lines: dict[int, str] = {}
    for name, place in sorted(made.items(), key=lambda each: each[1].line):
        lines |= {**computed_along(level, place), place.line: name}
    others = [each for each in statements(level.body.node) if each.lineno not in lines] if level.body else []
    others = [each for each in others if not isinstance(each, SCOPES)]
    is_read = any(use.name in lines.values() and not use.binds for each in others for use in uses(each))
    move = f"{'Repeat' if is_read else 'Move'} line"
    into = f"{'in' if is_read else 'into'} {inner}()"
    if len(lines) == 1:
        return f"{move} {next(iter(lines))}, {next(iter(made.values())).text}, {into}"
    numbers = [str(each) for each in sorted(lines)]
    names = dict.fromkeys(lines[each] for each in sorted(lines))
    return f"{move}s {listed(numbers)}, which compute {listed([*names])}, {into}"


def computed_along(level: Level, place: Place) -> dict[int, str]:
    """The variables with a graph of their own that a statement computes with, by the line that gives each its value: to
    compute its result anew, these have to be computed anew, too."""
    statement = statement_at(level.body, *place.position)
    value = getattr(statement, "value", None)
    found: dict[int, str] = {}
    if level.body is not None and value is not None:
        for name, each in ancestors(level.body, level.body.text(value), place.line).items():
            if results_in(level.value(name)):
                found |= {made.line: name for made in each.bound if made.line < place.line}
    return dict(sorted(found.items()))


def along(level: Level, made: Sequence[Place]) -> str:
    """Say what else has to be computed anew to compute anew what the last of some statements gives its value."""
    where = [f"{name} (line {line})" for line, name in computed_along(level, made[-1]).items()] if made else []
    return f", together with {listed(where)}, which it is computed from" if where else ""


def local_of(case: Case, joint: Joint) -> Local | None:
    inner = ""
    for level in case.failure.users:
        for name, value in level.variables.items():
            if joint.old.index not in made_in(case.graph, value) or level.body is None or name.startswith("_"):
                continue
            made = assignments(level.body, name, before=level.line)
            if not made:
                inner = level.frame.f_code.co_name if name in level.frame.f_code.co_freevars else inner
                continue
            outside = [each for each in loops(level) if each.loop.file == made[-1].file and name not in each.assigned]
            between = [
                place
                for each in statements(level.body.node)
                if made[-1].position < (place := level.body.place(each)).position < level.place.position
                and not isinstance(each, SCOPES)
                and any(use.name == name and not use.binds for use in uses(each))
            ]
            running = [each for each in between if "(" in each.text and not _only_computes(level, each)]
            beside = _beside(case, level, name) if inner else {}
            return Local(
                case, level, name, made[-1], next(iter(outside), None), inner, next(iter(running), None), beside
            )
    return None


def _beside(case: Case, level: Level, name: str) -> dict[str, Place]:
    """The other old results of a call that the functions inside it read, by the statement that made each."""
    found: dict[str, Place] = {}
    within = case.failure.users[: case.failure.users.index(level)]
    for other in dict.fromkeys(each for inner in within for each in inner.frame.f_code.co_freevars):
        old = [each for each in made_in(case.graph, level.value(other)) if each in case.old]
        places = assignments(level.body, other, before=level.line)
        if other != name and places and any(needs_saved(case.graph, each) for each in old):
            found[other] = places[-1]
    return found


def _only_computes(level: Level, place: Place) -> bool:
    """Whether a statement gives a variable what it computes: then it has not run backward."""
    statement = statement_at(level.body, *place.position)
    return isinstance(statement, ast.Assign) and any(results_in(level.value(each)) for each in bound(statement))
