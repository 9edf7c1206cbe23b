"""One gradient that was asked for in vain: of what, with respect to what, and where the output was computed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch

from backsight.diagnosis.wording import counted, listed, shown
from backsight.findings.evidence import Fact
from backsight.source import Body, Place, assignments, statement_at
from backsight.source.ancestry import Ancestor, ancestors
from backsight.source.body import read_at
from backsight.story.failure import Failure, Level
from backsight.story.memory import is_tensor
from backsight.tape import Graph, NotInGraph
from backsight.tape.queries import locate

_CALLED = re.compile(r"([\w.]+)\(")


@dataclass(frozen=True, eq=False)
class Unused:
    """What was asked for in vain: the tensors and what the user's line calls them, the output, and its graph."""

    failure: Failure
    graph: Graph
    output: str
    tensors: tuple[torch.Tensor, ...]
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.names[0]

    @property
    def base(self) -> str:
        """The variable of the input: `xs` of `xs[0]`."""
        return self.name.partition("[")[0]

    @property
    def body(self) -> Body | None:
        """The function that asks for the gradient."""
        return self.failure.user.body if self.failure.user else None

    @property
    def making(self) -> ast.stmt | None:
        """The statement of that function that computes the output."""
        return statement_at(self.body, *self.made.position) if self.made else None

    def value(self, name: str) -> object:
        return self.failure.user.value(name) if self.failure.user else None

    @cached_property
    def ancestors(self) -> dict[str, Ancestor]:
        """What the output is computed from in the function that asks for the gradient, as the text shows."""
        level = self.failure.user
        receiver = level.receiver if level else None
        return ancestors(level.body, receiver, level.line) if receiver and level else {}

    @property
    def made(self) -> Place | None:
        """The statement that computes the output: the failing one, where a call in it does."""
        level = self.failure.user
        if level and (level.receiver or "").startswith(self.output) and (called := _CALLED.match(self.output)):
            of = called[1].rpartition(".")[0]
            if not (of and is_tensor(level.value(of))):  # of `logits.max()` it is what computes `logits`
                return self.at
        return next((each.bound[0] for each in self.ancestors.values() if each.bound), None)

    @cached_property
    def caller(self) -> tuple[Level, Place] | None:
        """The function that has both tensors, where a helper asks for the gradient, and the line of the output."""
        for level in self.failure.users:
            made = assignments(level.body, self.output, before=level.line) if level is not self.failure.user else ()
            if made and assignments(level.body, self.name, before=level.line):
                return level, made[-1]
        return None

    @property
    def at(self) -> Place | None:
        """The statement that asks for the gradient."""
        return self.failure.user.place if self.failure.user else None

    @property
    def asked(self) -> Fact:
        level = self.caller[0] if self.caller else self.failure.user
        return shown(level.place, f"asks for its gradient with respect to {listed(self.names)}.") if level else ""


def is_in(graph: Graph, tensor: torch.Tensor) -> bool:
    try:
        locate(graph, tensor)
    except NotInGraph:
        return False
    return True


def computed(case: Unused) -> Iterator[Fact]:
    """The statement that computes the output, and from which leaves the graph says it does."""
    leaves = [leaf for leaf in case.graph.leaves if leaf.kind in ("variable", "overwritten")]
    parameters = sum(leaf.kind == "parameter" for leaf in case.graph.leaves)
    given = [leaf.name for leaf in leaves if leaf.name and leaf.name not in case.names]
    parts = [*given[:4], *([counted(parameters, "parameter")] if parameters else [])]
    made = case.made or (case.caller[1] if case.caller else None)
    if made and made != case.at and not isinstance(read_at(made)[1], ast.For):  # a loop takes it from what was computed
        yield shown(made, f"computes {case.output} from {listed(parts) or 'other tensors'}.")
    elif parts:
        yield f"{case.output} was computed from {listed(parts)}."
