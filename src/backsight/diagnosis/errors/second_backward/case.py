"""One second backward: its graph, what the levels of the traceback say of it, and what a running watch knows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch

from backsight.diagnosis.evidence.failure import Failure, Level
from backsight.diagnosis.evidence.holders import border
from backsight.snapshot import Survey
from backsight.source import LoopFacts, loop_facts, receiver_of_backward, statement_at
from backsight.source.ancestry import Ancestor, ancestors
from backsight.source.bindings import uses
from backsight.tape import Graph
from backsight.tape._torch import NO_SEQUENCE
from backsight.tracing import current


@dataclass(frozen=True, eq=False)
class Case:
    """What the explanations of a second backward look at."""

    failure: Failure
    survey: Survey

    @property
    def graph(self) -> Graph:
        return self.survey.graph

    @property
    def root(self) -> torch.Tensor:
        return self.failure.roots[0]  # type: ignore[no-any-return]  # a tensor, or an edge that is never held by name

    @cached_property
    def receiver(self) -> str:
        """What the user's line calls backward on, `loss`; empty where the source cannot be read."""
        level = self.failure.user
        return (receiver_of_backward(level.body, level.line) or "") if level and level.body else ""

    @property
    def loss(self) -> str:
        """The loss as a person would call it."""
        return self.receiver or next(iter(self.graph.root_names), "") or "the loss"

    def ancestors(self, level: Level) -> dict[str, Ancestor]:
        """The names that may take part in what backward was called on, as the text of this level's function shows."""
        if level.body is None:
            return {}
        if level is self.failure.user and self.receiver:
            return ancestors(level.body, self.receiver, level.line)
        return {
            name: each for read in names_read(level) for name, each in ancestors(level.body, read, level.line).items()
        }

    @cached_property
    def mark(self) -> int | None:
        """The sequence number at the last optimizer step of this thread, if a watch is running."""
        watch = current()
        return watch.steps.marks.get(threading.get_ident()) if watch else None

    @cached_property
    def old(self) -> frozenset[int]:
        """The operations made before the last optimizer step; none without a watch."""
        if self.mark is None:
            return frozenset()
        sequence = self.graph.columns.sequence.tolist()
        return frozenset(i for i, made in enumerate(sequence) if made != NO_SEQUENCE and made < self.mark)

    @cached_property
    def joints(self) -> list[int]:
        """The old operations that new ones consume: exactly where this iteration joins an earlier one."""
        return border(self.graph, set(self.old)) if len(self.old) < len(self.graph) else []


def names_read(level: Level) -> list[str]:
    """The names that the statement at this level reads."""
    statement = statement_at(level.body, level.line) if level.body else None
    return list(dict.fromkeys(use.name for use in uses(statement) if not use.binds)) if statement else []


def loops(level: Level) -> Iterator[LoopFacts]:
    """The loops around the line of this level, innermost first."""
    facts = loop_facts(level.body, level.line) if level.body else None
    while facts is not None:
        yield facts
        facts = facts.enclosing
