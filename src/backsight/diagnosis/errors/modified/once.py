"""A result that is computed once before a loop, each iteration of which steps an optimizer and runs backward on it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from backsight.diagnosis.errors.second_backward.local import computed_along
from backsight.diagnosis.evidence.case import Case, loops
from backsight.diagnosis.evidence.holders import made_in
from backsight.diagnosis.evidence.joints import Joint
from backsight.diagnosis.wording import listed
from backsight.source import Place, statement_at
from backsight.source.body import calls_in
from backsight.story.failure import Level


@dataclass(frozen=True, eq=False)
class Once:
    """The variable, the statement that computes it, and the loop below that reads it."""

    level: Level
    name: str
    made: Place
    loop: Place

    @property
    def fix(self) -> str:
        loop = statement_at(self.level.body, *self.loop.position)
        first = loop.body[0].lineno if isinstance(loop, ast.For | ast.While) else 0
        along = computed_along(self.level, self.made)
        lines = [str(each) for each in (*along, self.made.line)]
        again = f"run lines {listed(lines)} again" if along else f"put `{self.made.text}`"
        where = f"above line {first}" if first > self.loop.line else f"inside the loop at line {self.loop.line}"
        retained = " Then backward needs no retain_graph=True either." if "retain_graph" in self._text else ""
        return (
            f"Recompute {self.name} in each iteration, because the step changes the weights that it was computed "
            f"with: {again} {where}.{retained}"
        )

    @property
    def _text(self) -> str:
        return self.level.place.text


def before_loop(case: Case, joint: Joint) -> Once | None:
    """What holds the old result, where the running function computes it before the loop in which backward fails."""
    level = case.failure.user
    for facts in loops(level) if level is not None else ():
        for name, made in facts.outside.items():
            statement = statement_at(level.body, *made.position) if level is not None else None
            if level is None or statement is None or not any(True for _ in calls_in(statement)):
                continue
            if joint.old.index in made_in(case.graph, level.value(name)):
                return Once(level, name, made, facts.loop)
    return None
