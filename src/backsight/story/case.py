"""One backward that failed for its graph: the levels of the traceback, and what a running watch knows of older ones."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from backsight.naming.roots import is_library
from backsight.snapshot import Survey
from backsight.source import Body, LoopFacts, Place, cuts, function_at, lets_through, loop_facts, statement_at
from backsight.source.ancestry import Ancestor, ancestors
from backsight.source.bindings import names_read
from backsight.source.body import begins, calls_in, dotted, statements
from backsight.story.failure import Failure, Level, function_of
from backsight.story.holders import below, border, identified, needs_saved, results_held, results_of_object
from backsight.story.memory import maker_of, shape_of
from backsight.story.sections import Section, followed, function_called, results_of, run_by, section_of
from backsight.tape import NO_SEQUENCE, Graph, Node
from backsight.tracing import Backward, Watch, current


@dataclass(frozen=True, eq=False)
class Case:
    """What the explanations of a backward that leads into an older graph look at.

    towards: the node at which the backward fails, if that is known.
    """

    failure: Failure
    survey: Survey
    towards: int | None = None

    @property
    def level(self) -> Level:
        """The function that runs backward: the innermost of the user's, or that of a library which has called none."""
        return self.failure.user or self.failure.levels[-1]

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
        return (level.receiver or "") if level else ""

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
        found: dict[str, Ancestor] = {}
        for read in names_read(level.statement):
            for name, each in ancestors(level.body, read, level.line).items():
                if name == read or name not in found:  # the statement itself reads it, or another above
                    found[name] = each
        return found

    @cached_property
    def watch(self) -> Watch | None:
        """The watch that is running, if it notes lines."""
        watch = current()
        return watch if watch is not None and watch.level != "calls" else None

    @cached_property
    def earlier(self) -> Backward | None:
        """The backward that freed what this one needs: of those that released a graph made by then, the last one.

        One from the very same line goes first: it is what ran an iteration ago, when all of this graph but what was
        carried over did not exist. Those that another line ran since may have spared parts that are older than them.
        """
        every = self.watch.backwards if self.watch else ()
        failed = every[-1] if every and not every[-1].done else None
        oldest = min((s for s in self.graph.columns.sequence.tolist() if s != NO_SEQUENCE), default=None)
        if failed is None or oldest is None:
            return None
        found = [each for each in every if each.freed and each.thread == failed.thread and oldest < each.mark]
        same = [each for each in found if each.line == failed.line]
        return next(reversed(same or found), None)

    @cached_property
    def mark(self) -> int | None:
        """The sequence number at the earlier backward, or at the last optimizer step of this thread; None unwatched."""
        if self.earlier is not None:
            return self.earlier.mark
        watch = current()
        return watch.steps.marks.get(threading.get_ident()) if watch else None

    @cached_property
    def old(self) -> frozenset[int]:
        """The operations made before the earlier backward or the last optimizer step; none without a watch."""
        if self.mark is None:
            return frozenset()
        sequence = self.graph.columns.sequence.tolist()
        return frozenset(i for i, made in enumerate(sequence) if made != NO_SEQUENCE and made < self.mark)

    @cached_property
    def joints(self) -> list[int]:
        """The old operations that new ones consume: exactly where this iteration joins an earlier one."""
        return border(self.graph, set(self.old)) if len(self.old) < len(self.graph) else []

    @cached_property
    def held(self) -> list[tuple[str, int]]:
        """What holds results of this graph: the best path to each, and the node that made it; the newest first. What
        begins with a variable of a library's function is no name of the program's."""
        nodes = {its: index for index, its in enumerate(self.graph.identities)}
        paths = [(name, nodes.get(made)) for t, name in results_held(self.failure.frames) if (made := identified(t))]
        paths = [pair for pair in paths if not is_library(pair[0].file or "")]
        found = [(name.path, node) for name, node in paths if name.exact and node is not None]
        return sorted(found, key=lambda each: -(self.graph.nodes[each[1]].sequence or 0))

    @cached_property
    def prepared(self) -> frozenset[ast.AST]:
        """The functions that have only run before the loop."""
        return run_before(self.failure)

    def is_old(self, node: int) -> bool:
        """Whether a backward from a node downwards may be what failed, as far as it is known what is old."""
        return needs_saved(self.graph, node) and (not self.old or not self.old.isdisjoint(below(self.graph, [node])))

    def ran(self, place: Place, nodes: Iterable[Node]) -> bool:
        """Whether a backward ran at `place` after `nodes` were made; what no watch has noted counts as yes."""
        made = min((node.sequence for node in nodes if node.sequence is not None), default=None)
        if self.watch is None or made is None:
            return True
        return any(
            each.line is not None
            and (each.line.file, each.line.line) == (place.file, place.line)
            and each.done
            and made < each.marks.get(threading.get_ident(), -1)
            for each in self.watch.backwards
        )

    def is_joint(self, value: object) -> bool:
        """Whether what `value` was an iteration ago may be where this graph joins an older one, as far as is known.

        The older value is gone, but the same statement made both, so operation or shape are the same.
        """
        joints = [self.graph.nodes[i] for i in self.joints]
        operations = {type(maker_of(each)).__name__ for each in results_of_object(value)}
        shapes = {shape_of(each) for each in results_of_object(value)}
        return not joints or any(joint.name in operations or joint.shape in shapes for joint in joints)

    def carries(self, level: Level, name: str, read: Place) -> bool:
        """Whether `read` takes `name` with its history: not in `h = cell(x, h.detach())`, nor in `h = repackage(h)`."""
        statement = statement_at(level.body, *read.position)
        if statement is None or not results_of_object(level.value(name)) or not lets_through(statement, name):
            return False
        handed = (node for node in calls_in(statement) if any(dotted(given) == name for given in node.args))
        return self.is_joint(level.value(name)) and not any(_cuts_off(level, call) for call in handed)


def _cuts_off(level: Level, call: ast.Call) -> bool:
    """Whether the function that is called returns something detached."""
    function = function_of(level.value(dotted(call.func) or ""))
    body = function_at(function.__code__) if function is not None else None
    if body is None:
        return False
    return any(cut.kind == "detach" for value, line in results_of(body) for cut in cuts(body, value, line))


def loops(level: Level) -> Iterator[LoopFacts]:
    """The loops around the line of this level, innermost first."""
    facts = loop_facts(level.body, level.line)
    while facts is not None:
        yield facts
        facts = facts.enclosing


# Which functions of the program an iteration runs, in which order, and which have only run before the loop.


def run_in_turn(failure: Failure) -> frozenset[ast.AST]:
    """Return the functions that run again in each iteration, as far as names lead to them."""
    found = frozenset(section.body.node for section in followed([*_sections(failure)]))
    return found | {level.body.node for level in failure.users if level.body and _loop(level) is None}


def run_before(failure: Failure) -> frozenset[ast.AST]:
    """Return the functions that run only before the outermost loop around the failing line."""
    queue = []
    for level in failure.users:
        loop, section = _loop(level), section_of(level)
        if loop is not None and section is not None:
            block = [each for each in section.body.node.body if (each.end_lineno or each.lineno) < loop.lineno]
            queue.append(_part(section, block))
    before = frozenset(section.body.node for section in followed(queue))
    return before - run_in_turn(failure)


def runs_first(failure: Failure, one: tuple[ast.AST, Place], other: tuple[ast.AST, Place]) -> bool:
    """Whether a pass comes to one statement before it comes to another; each is given with its function."""
    for section in _sections(failure):
        order = _order(section, one, other)
        if order is not None:
            return order
    return False


def _sections(failure: Failure) -> Iterator[Section]:
    """What an iteration runs of each running function: the outermost loop, or all of it where there is none."""
    for level in failure.users:
        loop, section = _loop(level), section_of(level)
        if section is not None:
            yield _part(section, [loop]) if loop is not None else replace(section, whole=True)


def _part(section: Section, block: Sequence[ast.stmt]) -> Section:
    body = Body(section.body.file, ast.Module([*block], []), section.body.lines)
    return replace(section, body=body, whole=True)


def _loop(level: Level) -> ast.stmt | None:
    facts = loop_facts(level.body, level.line)
    while facts is not None and facts.enclosing is not None:
        facts = facts.enclosing
    return statement_at(level.body, *facts.loop.position) if facts is not None else None


def _order(section: Section, one: tuple[ast.AST, Place], other: tuple[ast.AST, Place], depth: int = 4) -> bool | None:
    """Whether the first of two statements is come to first; None where a function does not come to both."""
    first, second = (_reached(section, *each) for each in (one, other))
    if first is None or second is None:
        return None
    (at, into), (then, _) = first, second
    if at != then or not depth:
        return at < then
    orders = (_order(each, one, other, depth - 1) for each in into)
    return next((order for order in orders if order is not None), False)


def _reached(section: Section, function: ast.AST, place: Place) -> tuple[int, list[Section]] | None:
    """The first statement of a function that comes to a statement, by its number, and the functions that do for it."""
    for index, statement in enumerate(statements(section.body.node)):
        here = begins(statement) == place.position and section.body.file == place.file
        into = [each for each in _called(section, statement) if any(inner.body.node is function for inner in each)]
        if here or into:
            return index, [each[0] for each in into]
    return None


def _called(section: Section, statement: ast.stmt) -> Iterator[list[Section]]:
    """For each call in a statement the function that it runs, and those that this may run."""
    for call in calls_in(statement):
        function, owner = function_called(section, call)
        found = [*run_by(function, owner)] if function is not None else []
        if found:
            yield found
