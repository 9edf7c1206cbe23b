"""What the program calls on a GradScaler, in which order, and what the scaler has noted of it."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.findings.evidence import Fact
from backsight.source import Place
from backsight.source.bindings import Spot, are_alternatives, spots
from backsight.source.body import LOOPS, callee, expressions
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.scenes import called_function
from backsight.story.sections import MOST, Section, section_of
from backsight.tracing import current
from backsight.tracing.steps import parameters


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a method, as the text shows it: where, the call, the function around it."""

    place: Place
    node: ast.Call
    spot: Spot
    section: Section

    @property
    def method(self) -> str:
        return callee(self.node)[1]

    @property
    def receiver(self) -> object:
        return value_of(self.section, callee(self.node)[0])

    @property
    def loop(self) -> ast.stmt | None:
        """The innermost loop around it."""
        return next((arm for arm, _ in reversed(self.spot.arms) if isinstance(arm, LOOPS)), None)

    @property
    def conditions(self) -> list[ast.stmt]:
        """The conditions under which it stands in that loop."""
        arms = [arm for arm, _ in self.spot.arms]
        inside = arms[arms.index(self.loop) + 1 :] if self.loop in arms else arms
        return [arm for arm in inside if isinstance(arm, ast.If)]


@dataclass(frozen=True, eq=False)
class Misused:
    """The failing call: the scaler and the optimizer, and what the program calls them."""

    failure: Failure
    scaler: object
    optimizer: object
    name: str
    argument: str

    @cached_property
    def calls(self) -> list[Call]:
        """The calls of the functions that run, and of those that they call by name, in the order of the text."""
        return list(_calls(self.failure))

    @cached_property
    def here(self) -> Call | None:
        """The call that failed."""
        level = self.failure.user
        found = [each for each in self.calls if level and each.place == level.place and self.is_of(each)]
        return found[0] if found else None

    def is_of(self, call: Call) -> bool:
        return self.scaler is not None and call.receiver is self.scaler

    def others(self, *methods: str) -> list[Call]:
        """The other calls of these methods of the same scaler, of one that takes an optimizer for this one."""
        found = [each for each in self.calls if each.method in methods and self.is_of(each)]
        here = self.here
        return [
            each
            for each in found
            if (here is None or (each.place != here.place and not _is_alternative(each, here)))
            and (
                self.optimizer is None
                or not each.node.args
                or value_of(each.section, each.node.args[0]) is self.optimizer
            )
        ]

    @property
    def parameters(self) -> list[torch.Tensor]:
        """What the optimizer holds."""
        found = self.optimizer
        return list(parameters(found)) if isinstance(found, torch.optim.Optimizer) else []

    @property
    def asked(self) -> Place | None:
        return self.failure.user.place if self.failure.user else None

    def told(
        self, title: str, culprit: Place | None, lines: Iterable[Fact | None], fix: str, *, exact: bool = True
    ) -> Finding:
        return explanation(
            title, lines, fix, source=culprit or self.failure.source, exact=exact and culprit is not None
        )


def misused_in(failure: Failure) -> Misused:
    inner = next((each for each in reversed(failure.levels) if is_scaler(each.variables.get("self"))), None)
    held = [each for each in failure.levels if is_scaler(each.variables.get("self"))]
    optimizer = next((o for each in held if (o := each.variables.get("optimizer")) is not None), None)
    scaler = inner.variables.get("self") if inner else None
    name, argument = _written(failure.user, scaler) if failure.user else ("", "")
    return Misused(failure, scaler, optimizer, name or "scaler", argument or "optimizer")


def is_scaler(value: object) -> bool:
    return issubclass(type(value), torch.amp.GradScaler)


def _written(level: Level, scaler: object) -> tuple[str, str]:
    """What the failing statement calls the scaler and its optimizer."""
    for node in expressions(level.statement) if level.statement else ():
        receiver = callee(node)[0] if isinstance(node, ast.Call) else None
        value = value_of(level, receiver) if receiver is not None else None
        if isinstance(node, ast.Call) and receiver is not None and level.body and value is scaler is not None:
            return level.body.text(receiver), level.body.text(node.args[0]) if node.args else ""
    return "", ""


def _calls(failure: Failure) -> Iterator[Call]:
    queue = [section for level in failure.users if (section := section_of(level))]
    seen = {section.body.node for section in queue}
    for section in queue:  # grows as we go
        for spot in spots(section.body.node):
            for node in expressions(spot.node):
                if not isinstance(node, ast.Call):
                    continue
                yield Call(section.body.place(spot.node), node, spot, section)
                inner = called_function(section, node) if len(seen) < MOST else None
                if inner is not None and inner.body.node not in seen:
                    seen.add(inner.body.node)
                    queue.append(inner)


def _is_alternative(one: Call, other: Call) -> bool:
    """Whether a single pass runs only one of the two."""
    same = one.section.body.node is other.section.body.node
    return same and are_alternatives(one.section.body, one.place, other.place)


def is_before(call: Call, here: Call) -> bool:
    """Whether a call stands before another in their function."""
    return call.spot.order < here.spot.order


def has_run(place: Place) -> bool:
    """Whether a watch has noted a backward at a place since the last optimizer step of this thread."""
    watch, thread = current(), threading.get_ident()
    last = watch.steps.marks.get(thread, -1) if watch is not None else -1
    return watch is not None and any(
        each.line is not None and (each.line.file, each.line.line) == (place.file, place.line) and each.mark > last
        for each in watch.backwards
    )
