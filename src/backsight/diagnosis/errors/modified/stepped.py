"""An optimizer changed the saved weight: `step()` ran between the forward pass and its backward, or the backward leads
into an earlier iteration."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from backsight.diagnosis.errors.modified.closures import within_closure
from backsight.diagnosis.errors.modified.hooked import stepped_by_hook
from backsight.diagnosis.errors.modified.wording import needs, since
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.second_backward.local import computed_along
from backsight.diagnosis.errors.second_backward.recomputing import assigned_once, stored_at
from backsight.diagnosis.evidence.carried import Carried, carried, detaching
from backsight.diagnosis.evidence.case import Case, loops
from backsight.diagnosis.evidence.holders import below, made_in, node_of, results_in
from backsight.diagnosis.evidence.joints import Joint, is_of_this_pass, joint_of, passed_on_by_one
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown, unwatched
from backsight.findings.evidence import Certainty
from backsight.source import Body, Place, read_at, statement_at
from backsight.source.bindings import bound, uses
from backsight.source.body import SCOPES, callee, calls_in, dotted, expressions, statements
from backsight.source.definitions import values_of
from backsight.source.rewriting import rewritten
from backsight.story.changes import Changed
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.subject import Subject
from backsight.tracing import Line
from backsight.tracing.steps import parameters


def changed_by_step(subject: Subject, steps: Sequence[Changed]) -> Finding | None:
    """The first of the steps that fits: one before the failing line, or one whose iteration the backward reaches."""
    case = Case(subject.failure, subject.survey)
    if within := within_closure(subject, case, steps) or stepped_by_hook(subject, case, steps):
        return within
    old, roots = subject.node.index in case.old, {root for root, _ in case.graph.root_edges}
    joint = joint_of(case, subject.node.index) if steps else None
    found = (carried(case) or passed_on_by_one(case, joint)) if steps else None
    once = before_loop(case, joint) if joint is not None and found is None else None
    if once is not None and joint is not None and joint.holder and _detachable(subject, case, once.level) is not None:
        once = None
    for step in steps:
        level = step.scene.level if step.scene else None
        if step.certainty == "seen":
            this_pass = joint is not None and is_of_this_pass(case, joint)
            between = not old or level is None or bool(roots & case.old) or this_pass
        elif level is None:
            continue
        else:
            between = step.before.position < level.place.position
        if between or (once is not None and level is subject.failure.user):
            return _between(subject, case, step, level or subject.failure.user, None if between else once)
        if level is not None and step.before == step.place and (found or old):
            return _through_history(subject, case, step, level, found, joint, seen=old)
    return None


def _between(subject: Subject, case: Case, step: Changed, level: Level | None, once: Once | None = None) -> Finding:
    """The step, or the call of a function that steps, stands between the forward pass and the failing line; or in a
    loop below a forward pass that runs once before it."""
    weight, optimizer = subject.holder or "a weight", step.name
    loss = case.loss if level is subject.failure.user else "the loss"
    where = "" if step.before == step.place else f" It was called at line {step.before.line}: {step.before.text}"
    forward = step.saver or (_forward(subject, case, level, step.before) if level else None)
    if once is not None:
        where += f" It ran in an earlier iteration of the loop at line {once.loop.line}."
    exact = step.certainty == "seen" or forward is not None or subject.node.index in case.old
    certainty: Certainty | None = None if exact else "read"
    reason = "and saves it: the gradient of a product needs both factors."
    return explanation(
        f"{optimizer}.step() changed {weight} between the forward pass of {loss} and its backward.",
        (
            *([shown(forward, f"uses {weight}, {reason}", certainty)] if forward else []),
            shown(step.place, f"modifies {weight} in place, like every weight of {optimizer}.{where}", certainty),
            *needs(subject, f"needs the original value of {weight}"),
            *([] if exact else unwatched()),
        ),
        once.fix if once is not None else _in_order(subject, case, level, step, loss),
        source=str(step.place),
        exact=exact,
    )


def _in_order(subject: Subject, case: Case, level: Level | None, step: Changed, loss: str) -> str:
    """The fix; where the loss reaches the stepped weights through one value only, each way with what it does."""
    optimizer = step.name
    if each := _of_each(level, loss):
        return each
    after, lines = f"after {optimizer}.step()", _repeated(subject, case, level, step)
    again = (
        f"compute {loss} {after}, with a new forward pass{lines}."
        if level is subject.failure.user
        else f"run the forward pass of {loss} again {after}{lines}."  # where its last lines run is not known
    )
    early = (
        f"(Running backward on every loss before the first step also avoids the error, but then {optimizer} also steps "
        f"along the gradient of {loss}.)"
    )
    cut = _detachable(subject, case, level) if level else None
    apart = Cut(case, level, *cut).text if cut is not None and level is not None else ""
    if not apart:
        return f"{again[0].upper()}{again[1:]} {early}"
    return (
        f"If {loss} should not train the parameters of {optimizer}, {apart}: its backward then needs none of those "
        f"weights. If it should, {again} {early}"
    )


def _of_each(level: Level | None, loss: str) -> str:
    """What to write in a loop over losses of one forward pass, `for name, loss in losses.items():`, in which an
    optimizer steps each time."""
    body = level.body if level is not None else None
    for loop in (each for each in statements(body.node) if isinstance(each, ast.For)) if body else ():
        target, call = loop.target, loop.iter
        if not isinstance(target, ast.Tuple) or not isinstance(call, ast.Call) or callee(call)[1] != "items":
            continue
        key, value = ([dotted(each) for each in target.elts] + [None])[:2]
        held = dotted(callee(call)[0])
        made = values_of(body, held, loop.lineno) if body is not None and held else []
        if level is None or body is None or value != loss or not loop.lineno < level.line <= (loop.end_lineno or 0):
            continue
        if key and len(made) == 1 and isinstance(made[0], ast.Call):
            return (
                f"Recompute {loss} in each iteration, because the step changes the weights: put `{loss} = "
                f"{body.text(made[0])}[{key}]` above line {loop.body[0].lineno}. Then backward needs no "
                "retain_graph=True either."
            )
    return ""


def _repeated(subject: Subject, case: Case, level: Level | None, step: Changed) -> str:
    """Which lines that is: those before the step that give a name of the loss's a graph over the stepped weights."""
    if stored := _stored_again(subject, case, level, step):
        return stored
    owner = subject.leaf.owner if subject.leaf else None
    mine = {leaf.node for leaf in case.graph.leaves if leaf.owner == owner}
    lines = {
        place.line
        for name, each in (case.ancestors(level).items() if level and owner else ())
        if level and mine & set(below(case.graph, made_in(case.graph, level.value(name))))
        for place in each.bound
        if place.file == step.before.file and place.position < step.before.position
    }
    if not 0 < len(lines) <= _MOST:
        return ""
    return (
        f": run line{'s' * (len(lines) > 1)} {listed([*map(str, sorted(lines))])} again below line {step.before.line}"
    )


def _stored_again(subject: Subject, case: Case, level: Level | None, step: Changed) -> str:
    """The statement of another method that stores the result of the old weights, `self.score = self.critic(self.fake)`:
    below the step, if the loss reaches the weights through that attribute alone and the statement can run there."""
    saver, owner, graph = step.saver, subject.leaf.owner if subject.leaf else None, case.graph
    body, statement = read_at(saver)
    if level is None or level is subject.failure.user or not owner or body is None:
        return ""
    if not isinstance(statement, ast.Assign) or len(statement.targets) > 1 or step.before.file != level.place.file:
        return ""
    name = dotted(statement.targets[0]) or ""
    root, within, _ = name.partition(".")
    nodes = set(made_in(graph, level.value(name))) if within else set[int]()
    around = set(below(graph, [index for index, _ in graph.root_edges], without=nodes))
    beside = {leaf.node for leaf in graph.leaves if leaf.owner == owner} & around
    read = {use.name for use in uses(statement) if not use.binds}
    known = all(each.partition(".")[0] == root and level.value(each) is not None for each in read)
    if subject.node.index not in below(graph, nodes) or beside or not known:
        return ""
    return f": put `{body.text(statement)}` below line {step.before.end or step.before.line}"


_MOST = 4
"""Lines of a forward pass that are told one by one."""


def _forward(subject: Subject, case: Case, level: Level, step: Place) -> Place | None:
    """The last statement before the step that calls the model which owns the weight, on the way to the loss."""
    weight = subject.leaf.tensor() if subject.leaf else None
    places = {place.line: place for each in case.ancestors(level).values() for place in (*each.bound, each.read)}
    for line in sorted((line for line in places if line < step.line), reverse=True):
        statement = statement_at(level.body, line)
        for node in expressions(statement):
            value = value_of(level, node.func if isinstance(node, ast.Call) else node)
            if weight is not None and (value is weight or subject.is_owned_by(value)):
                return places[line]
    return None


def _detachable(subject: Subject, case: Case, level: Level) -> tuple[str, Place] | None:
    """Return the variable to detach so that the loss keeps nothing of the optimizer that stepped, and where it is read:
    `adv` of an actor's loss.

    None unless all that the variable was computed from is the optimizer's and no other's, all of the optimizer's that
    the loss depends on is reached through it, and another optimizer has something left to learn from the loss.
    """
    graph, owner = case.graph, subject.leaf.owner if subject.leaf else None
    mine = {leaf.node for leaf in graph.leaves if leaf.owner == owner}
    others = {leaf.node for leaf in graph.leaves if leaf.owner not in (None, owner)}
    leaves = {leaf.node for leaf in graph.leaves}
    beside = (each for name, each in subject.survey.optimizers.items() if name != owner)
    shared = {id(weight) for each in beside for weight in parameters(each)}
    mine -= {leaf.node for leaf in graph.leaves if id(leaf.tensor()) in shared}
    found: list[tuple[int, str, Place]] = []
    for name, ancestor in case.ancestors(level).items() if owner else ():
        tensors = results_in(level.value(name))
        node = node_of(graph, tensors[0]) if len(tensors) == 1 else None
        if node is None or not leaves & set(below(graph, [node])) <= mine:
            continue
        around = set(below(graph, [root for root, _ in graph.root_edges], without={node}))
        if not mine & around and others & around:
            found.append((node, name, ancestor.read))
    nearest = min(found, key=lambda each: each[0], default=None)  # consumers come before producers
    return nearest[1:] if nearest else None


def _through_history(
    subject: Subject, case: Case, step: Changed, level: Level, found: Carried | None, joint: Joint | None, *, seen: bool
) -> Finding:
    """No step stands between: then the backward reaches an iteration before the last step."""
    weight = subject.holder or "a weight"
    held = joint.holder if joint else ""
    cut = _detachable(subject, case, level) if held and not found else None
    kept_at = stored_at(case, held.partition("[")[0]) if held and not found else None
    certainty: Certainty | None = None if seen else "read"
    reads = f"reads {found.inner} from the previous {found.span}, still attached to its graph." if found else ""
    how = [shown(found.read, reads, certainty)] if found else []
    if found and found.assigned != found.read:
        how.append(shown(found.assigned, f"assigns it for the next {found.span}.", certainty))
    if joint and held and not found:
        how += [shown(joint.made, f"made {held} before that step.")] if joint.made else []
        how += [shown(kept_at, f"stores it in {held}.")] if kept_at and not _is_at(kept_at, joint.made) else []
        how += [shown(joint.used, "uses it again.")] if joint.used and joint.used != joint.made else []
    detach = (
        _recomputed(case, held) if held else "Detach after each step what is carried over: hidden = hidden.detach()."
    )
    detach = detaching(found) if found else detach
    if cut is not None:
        variable, read = cut
        detach = (
            f"If {case.loss} should not train {weight}, use {variable}.detach() on line {read.line}. If it should, "
            f"recompute {held} after {step.name}.step()."
        )
    needed = f"needs the original value of {weight}; {since(subject)}"
    where = "an earlier graph"
    if found:
        title = f"{found.name} leads this backward into an earlier iteration, whose weights"
    elif cut is not None:
        title = f"{held} leads this backward into a part of the graph, whose weights"
    elif held:
        title, where = f"{held} was computed with weights that", f"the graph of {held}"
    else:
        title = "This backward leads into an earlier graph, whose weights"
    return explanation(
        f"{title} {step.name}.step() has since modified.",
        (
            *how,
            shown(
                step.place,
                f"has since modified {weight} in place; {where.replace('an ', 'the ')} still needs the old value.",
                certainty,
            ),
            shown(level.place, f"backpropagates into that graph, which {needed}."),
            *([] if seen else unwatched()),
        ),
        detach if cut is not None else f"{detach} Then backward needs no retain_graph=True either.",
        source=str(found.assigned if found else kept_at or step.place),
        exact=seen,
    )


def _is_at(place: Place, line: Line | None) -> bool:
    return line is not None and (place.file, place.line) == (line.file, line.line)


def _recomputed(case: Case, held: str) -> str:
    """How what holds an old result gets one of the weights as they are now."""
    variable = held.partition("[")[0]
    place = assigned_once(case, variable)
    body, statement = read_at(place)
    if place is None:
        return f"Recompute {held} in each iteration, or detach after each step what {variable} holds."
    constant = ""
    if variable == held and body and isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
        cut = rewritten(body, statement, {statement.value: f"{body.text(statement.value)}.detach()"})
        constant = f" If it need not train them, write `{cut}` there." if cut and "…" not in cut else ""
    return (
        f"Compute {held} in forward, each time it is used: line {place.line} of __init__ runs only once, and the step "
        f"changes the weights that it depends on.{constant}"
    )


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
