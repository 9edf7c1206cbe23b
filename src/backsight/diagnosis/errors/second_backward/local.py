"""A variable of a function that still runs, which holds a result from before."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

import torch

from backsight.diagnosis.evidence.case import Case, loops
from backsight.diagnosis.evidence.holders import below, made_in, results_in
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
    """

    case: Case
    level: Level
    name: str
    place: Place
    loop: LoopFacts | None
    inner: str
    first: Place | None

    @property
    def fix(self) -> str:
        name = self.name
        if self.inner and (self.first is None or self.loop is not None):
            return (
                f"{_moved(self.level, name, self.place)} into {self.inner}(), which runs backward on it "
                "each time it is called."
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


def _moved(level: Level, name: str, place: Place) -> str:
    """Say which lines are to be moved so that `name` has a new graph each time: what it is computed from goes along."""
    along = computed_along(level, place)
    if not along:
        return f"Move line {place.line}, {place.text},"
    numbers = [str(each) for each in (*along, place.line)]
    return f"Move lines {listed(numbers)}, which compute {listed([*dict.fromkeys((*along.values(), name))])},"


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
            return Local(case, level, name, made[-1], next(iter(outside), None), inner, next(iter(running), None))
    return None


def _only_computes(level: Level, place: Place) -> bool:
    """Whether a statement gives a variable what it computes: then it has not run backward."""
    statement = statement_at(level.body, *place.position)
    return isinstance(statement, ast.Assign) and any(results_in(level.value(each)) for each in bound(statement))
