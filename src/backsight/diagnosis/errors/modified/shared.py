"""A statement to cut a loss off at, which another loss is computed from as well."""

from __future__ import annotations

from dataclasses import dataclass

from backsight.diagnosis.evidence.case import Case
from backsight.diagnosis.evidence.holders import below, made_in, results_in
from backsight.source import Body, Place, statement_at
from backsight.source.bindings import bound, uses
from backsight.source.body import SCOPES, callee, calls_in, dotted, expressions, statements
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level


@dataclass(frozen=True, eq=False)
class Cut:
    """The variable to detach for one loss, and where the loss reads it."""

    case: Case
    level: Level
    name: str
    read: Place

    @property
    def text(self) -> str:
        """What to do, after "If the loss should not train those parameters, "; empty where it would also cut another
        loss off, and no second computation of the line is possible."""
        body = self.level.body
        others = [place for place in self._readers(body) if place not in self._chain] if body else []
        if not others:
            return f"use {self.name}.detach() on line {self.read.line}"
        return self._again(others)

    @property
    def _chain(self) -> set[Place]:
        return {place for each in self.case.ancestors(self.level).values() for place in (*each.bound, each.read)}

    @property
    def _between(self) -> set[str]:
        """The variables of the loss that are computed from the one to detach."""
        graph, nodes = self.case.graph, set(made_in(self.case.graph, self.level.value(self.name)))
        return {
            name
            for name in self.case.ancestors(self.level)
            if name != self.name and nodes & set(below(graph, made_in(graph, self.level.value(name))))
        }

    def _readers(self, body: Body, names: set[str] | None = None) -> list[Place]:
        """The statements below that compute with those variables: a result with a graph, or a backward."""
        names = self._between if names is None else names
        return [
            place
            for each in statements(body.node)
            if self.read.position < (place := body.place(each)).position < self.level.place.position
            and not isinstance(each, SCOPES)
            and any(use.name in names and not use.binds for use in uses(each))
            and (
                any(results_in(self.level.value(name)) for name in bound(each))
                or any(callee(call)[1] == "backward" for call in calls_in(each))
            )
        ]

    def _again(self, others: list[Place]) -> str:
        """The line a second time with the variable detached, below all that the other loss reads of the first."""
        body, level = self.level.body, self.level
        statement = statement_at(body, *self.read.position) if body else None
        if body is None or statement is None:
            return ""
        own = set(bound(statement))
        mine = [place for place in self._readers(body, own) if place in self._chain]
        inner = self._between - own - {self.case.receiver}
        if (
            not mine
            or set(self._readers(body, inner)) & set(others)
            or mine[0].position < max(others, key=_at).position
        ):
            return ""
        nodes = [node for node in expressions(statement) if dotted(node) == self.name]
        new = rewritten(body, statement, dict.fromkeys(nodes, f"{self.name}.detach()"))
        return f"put `{new}` above line {mine[0].line}" if new and level.place.file == self.read.file else ""


def _at(place: Place) -> tuple[int, int]:
    return place.position
