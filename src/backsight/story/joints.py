"""Where a graph joins an older one: exact, from the lines that a watch has noted."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from backsight.naming.roots import is_user_class
from backsight.source import Body, assignments, loop_facts, read_at, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import parameters_of, targets
from backsight.source.body import callee, calls_in, expressions
from backsight.story.case import Case
from backsight.story.holders import below, made_in, needs_saved, node_of, results_held
from backsight.tape import Node
from backsight.tracing import Line


@dataclass(frozen=True, eq=False)
class Joint:
    """The old node that a new one consumes: where each was made, and what holds the old one's result.

    others: where further old nodes were made that the new part consumes, on other lines: an earlier backward may have
        gone through these and spared this one.
    """

    old: Node
    new: Node
    made: Line | None
    used: Line | None
    holder: str
    others: tuple[Line, ...] = ()


def joint_of(case: Case) -> Joint | None:
    """The joint at which backward fails, as it goes through nodes from the newest to the oldest; one that leads to the
    node that fails, if that is known."""
    if case.watch is None:
        return None
    nodes = case.graph.nodes
    found = [i for i in case.joints if nodes[i].kind != "leaf" and needs_saved(case.graph, i)]
    found = [i for i in found if not _is_spared(case, nodes[i])] or found
    if case.towards is not None:
        found = [i for i in found if case.towards in below(case.graph, [i])] or found
    old = max((nodes[i] for i in found), key=lambda node: node.sequence or 0, default=None)
    if old is None:
        return None
    consumers = (node for node, edge in case.graph.edges if edge.node.index == old.index)
    new = min((node for node in consumers if node.index not in case.old), key=lambda node: node.sequence or 0)
    made = case.watch.line_of(old)
    lines = {line for i in found if (line := case.watch.line_of(nodes[i])) is not None and line != made}
    return Joint(old, new, made, case.watch.line_of(new), _holder(case, old), tuple(sorted(lines, key=str)))


def _is_spared(case: Case, node: Node) -> bool:
    """Whether the earlier backward in the same function was on what is, by its text, computed from something else."""
    made, ran = case.watch.line_of(node) if case.watch else None, case.earlier.line if case.earlier else None
    (body, _), (inner, _) = (read_at(line.place if line is not None else None) for line in (ran, made))
    if made is None or ran is None or body is None or inner is None or inner.node is not body.node:
        return False
    calls = [callee(each) for each in calls_in(statement_at(body, ran.line))]
    roots = [body.text(receiver) for receiver, name in calls if name == "backward" and receiver is not None]
    every = [each for root in roots[:1] for each in ancestors(body, root, ran.line).values()]
    lines = {place.line for each in every for place in (each.read, *each.bound)} | {ran.line}
    return bool(every) and (made.line not in lines or not _is_read(body, made.line, lines - {made.line}))


def _is_read(body: Body, line: int, readers: set[int]) -> bool:
    """Whether statements may read what a line assigns: of an entry of a container, not where they say other keys."""
    statement = statement_at(body, line)
    target = statement.targets[-1] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Constant):
        return True
    entry, container = body.text(target), body.text(target.value)
    for node in (each for reader in readers for each in expressions(statement_at(body, reader))):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            if body.text(node) == entry:
                return True
        elif any(body.text(each) == container for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)):
            return True  # the container itself, or an entry whose key is not known
    return False


def joint_by_argument(case: Case) -> Joint | None:
    """The result that the failing function was given, where all was computed before the earlier backward, as by tasks
    that take turns: each call has computed its loss anew, from that result."""
    level, body = case.failure.user, case.failure.user.body if case.failure.user else None
    if level is None or body is None or case.watch is None or loop_facts(body, level.line) is not None:
        return None
    given = parameters_of(body.node)
    if case.receiver in given or not assignments(body, case.receiver, before=level.line):
        return None
    made = {i: name for name in given for i in made_in(case.graph, level.value(name))}
    old = max((case.graph.nodes[i] for i in made), key=lambda node: node.sequence or 0, default=None)
    consumers = [node for node, edge in case.graph.edges if old is not None and edge.node.index == old.index]
    if old is None or not consumers:
        return None
    new = min(consumers, key=lambda node: node.sequence or 0)
    return Joint(old, new, case.watch.line_of(old), case.watch.line_of(new), made[old.index])


def passes_before(case: Case) -> list[int]:
    """The numbers of the next node at each earlier backward of the line that has failed."""
    *before, failed = case.watch.backwards if case.watch else (None,)
    return [e.mark for e in before if e and failed and (e.line, e.thread) == (failed.line, failed.thread)]


def is_of_this_pass(case: Case, joint: Joint) -> bool:
    """Whether the old node was made since the failing line ran backward last, or it runs it for the first time."""
    return max(passes_before(case), default=0) <= (joint.old.sequence or 0)


def _holder(case: Case, node: Node) -> str:
    """The variable that holds the result of a node; one of a container's rather than what passed through a function."""
    held = (name.path for t, name in results_held(case.failure.frames) if node_of(case.graph, t) == node.index)
    held = (path for path in held if not _is_inside_a_library(case, path))
    return min(held, key=lambda path: ("[" not in path and "." not in path, len(path)), default="")


def _is_inside_a_library(case: Case, path: str) -> bool:
    """Whether a path ends in a private attribute of an object whose class is not the program's."""
    owner, _, attribute = path.rpartition(".")
    if not attribute.startswith("_") or attribute.startswith("__defaults__"):
        return False
    owners = (value for level in case.failure.users if (value := level.value(owner)) is not None)
    return any(not is_user_class(type(each).__module__) for each in owners)


def passed_on(body: Body | None, line: int) -> str:
    """The one thing that a statement both assigns and reads, as it writes it: `state["h"]`."""
    statement = statement_at(body, line)
    if body is None or not isinstance(statement, ast.Assign):
        return ""
    targets = _targets(body, statement)
    read = (body.text(node) for node in expressions(statement) if isinstance(getattr(node, "ctx", None), ast.Load))
    return next((text for text in read if text in targets), "")


def stored(joint: Joint) -> str:
    """The attribute or element to which a statement assigns what it made: it outlives the function."""
    name = assigned(joint)
    return name if "." in name or "[" in name else ""


def assigned(joint: Joint) -> str:
    """The one thing to which a statement assigns what it made; empty if that is only a part of what it computes."""
    line = joint.made
    body, _ = read_at(line.place if line else None)
    statement = statement_at(body, line.line) if line else None
    if body is None or line is None or not isinstance(statement, ast.Assign):
        return ""
    outermost = callee(statement.value)[1] if isinstance(statement.value, ast.Call) else ""
    is_all = line.segment == body.text(statement.value) if line.segment else outermost == joint.old.op.lower()
    every = _targets(body, statement)
    return every.pop() if is_all and len(every) == 1 else ""


def _targets(body: Body, statement: ast.Assign) -> set[str]:
    return {body.text(target) for target, _, _ in targets(statement)}
