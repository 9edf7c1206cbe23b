"""An optimizer changed the saved weight: `step()` ran between the forward pass and its backward, or the backward leads
into an earlier iteration."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from backsight.diagnosis.errors.modified.hooked import stepped_by_hook
from backsight.diagnosis.errors.modified.wording import needs, since
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.carried import how
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import if_known, listed, shown, sure_if, unwatched
from backsight.findings.evidence import Certainty
from backsight.source import Body, Place, read_at, statement_at
from backsight.source.bindings import bound, names_read, uses
from backsight.source.body import SCOPES, callee, calls_in, dotted, expressions, statements
from backsight.source.edits import OR, lines_of, move, put, put_at, repeat, write
from backsight.source.rewriting import rewritten
from backsight.story.anew import each_detached
from backsight.story.carrier import Carrier
from backsight.story.carriers import carriers
from backsight.story.case import Case
from backsight.story.changes import Changed
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.holders import below, made_in, node_of, results_in
from backsight.story.joints import is_of_this_pass, joint_of
from backsight.story.recomputing import each_again
from backsight.story.renewing import renewed
from backsight.story.scenes import scenes
from backsight.story.stepping import open_step, steps_in
from backsight.story.subject import Subject
from backsight.tracing.steps import parameters


def changed_by_step(subject: Subject, steps: Sequence[Changed]) -> Finding | None:
    """The first of the steps that fits: one before the failing line, or one whose iteration the backward reaches."""
    case = Case(subject.failure, subject.survey, subject.node.index)
    found = next(carriers(case), None) if steps else None
    if within := _within_closure(subject, found, steps) or stepped_by_hook(subject, case, steps):
        return within
    for step in () if steps else _steps_of_helper(subject):
        calls = _calls_of_helper(subject, case, step)
        if any(subject.failure.users[1].value(each.optimizer) is subject.optimizer for each in calls):
            return _by_helper(subject, case, step, calls)
    old, roots = subject.node.index in case.old, {root for root, _ in case.graph.root_edges}
    joint = joint_of(case) if steps else None
    for step in steps:
        level = step.scene.level if step.scene else None
        if step.certainty == "seen":
            this_pass = joint is not None and is_of_this_pass(case, joint)
            between = not old or level is None or bool(roots & case.old) or this_pass
        elif level is None:
            continue
        else:
            over_losses = found is not None and found.facts is not None and found.read == found.facts.loop
            between = step.before.position < level.place.position or over_losses
        if between and (calls := _calls_of_helper(subject, case, step)):
            return _by_helper(subject, case, step, calls)
        if between:
            return _between(subject, case, step, level or subject.failure.user)
        if level is not None and step.before == step.place and (found or old):
            return _through_history(subject, case, step, level, found, seen=old)
    return None


def _within_closure(subject: Subject, found: Carrier | None, steps: Sequence[Changed]) -> Finding | None:
    """A step still open changes weights between calls of its closure, of which an outer result holds a graph."""
    opened = open_step(subject.failure, subject.optimizer)
    step = next((each for each in steps if opened and str(each.place) == str(opened.outer.place)), None)
    sure = step is not None and step.certainty == "seen"
    known = found if found is not None and found.function and found.stored is not None else None
    if opened is None or step is None or not (known or sure):
        return None
    weight, function = subject.holder or "a weight", opened.inner.frame.f_code.co_name
    closure = "the closure" if function.startswith("<") else f"{function}()"
    what = known.name if known else "a result from outside"
    outside = f"{what} was computed outside {closure}" if known else f"{closure} uses a result from outside"
    fresh = f"Compute everything that its loss depends on inside {closure}."
    return explanation(
        f"{outside}: {step.name}.step() has changed {weight} since.",
        (
            *(how(known)[:1] if known else ()),
            shown(
                step.place,
                f"calls {closure}, and modifies {weight} in place after each call.",
                None if sure else step.certainty,
            ),
            *needs(subject, f"reaches the graph of {what}, which needs the original value of {weight}"),
            *([] if sure else unwatched()),
        ),
        renewed(known, _RETAINED) if known else fresh,
        source=(known.stored if known else None) or step.place,
        exact=sure,
    )


_RETAINED = "Then backward needs no retain_graph=True either."


def _between(subject: Subject, case: Case, step: Changed, level: Level | None) -> Finding:
    """The step, or the call of a function that steps, stands between the forward pass and the failing line."""
    weight, optimizer = subject.holder or "a weight", step.name
    loss = case.loss if level is subject.failure.user else "the loss"
    where = "" if step.before == step.place else f" It was called at line {step.before.line}: {step.before.text}"
    forward = step.saver or (_forward(subject, case, level, step.before) if level else None)
    exact = step.certainty == "seen" or forward is not None or subject.node.index in case.old
    certainty = sure_if(exact)
    reason = "and saves it: the gradient of a product needs both factors."
    return explanation(
        f"{optimizer}.step() changed {weight} between the forward pass of {loss} and its backward.",
        (
            if_known(forward, f"uses {weight}, {reason}", certainty),
            shown(step.place, f"modifies {weight} in place, like every weight of {optimizer}.{where}", certainty),
            *needs(subject, f"needs the original value of {weight}"),
            *([] if exact else unwatched()),
        ),
        _in_order(subject, case, level, step, loss),
        source=step.place,
        exact=exact,
    )


def _steps_of_helper(subject: Subject) -> Iterator[Changed]:
    """The statements of the function that runs backward which step whatever optimizer it is given."""
    level = subject.failure.user if subject.optimizer is not None else None
    for scene in scenes(subject) if level is not None else ():
        if scene.section.level is level:
            yield from (Changed(each.place, scene, each.name, by="optimizer") for each in steps_in(scene.section))


class _Call(NamedTuple):
    """A call that runs a helper for another loss: the statement, and what it passes as the optimizer."""

    place: Place
    optimizer: str


def _calls_of_helper(subject: Subject, case: Case, step: Changed) -> list[_Call]:
    """The calls above this one, in the function that makes it, of a helper that runs backward and then steps,
    `update(opt, loss)`: those that have stepped weights of this loss; none if it steps before it runs backward."""
    if len(subject.failure.users) < 2:
        return []
    inner, outer = subject.failure.users[:2]
    running = outer.running
    if inner.body is None or outer.body is None or running is None:
        return []
    if step.scene is None or step.scene.section.body.node is not inner.body.node or step.place.line <= inner.line:
        return []
    owned = {leaf.owner for leaf in case.graph.leaves}
    stepped = [each for name, each in subject.survey.optimizers.items() if name in owned]
    found = list[_Call]()
    for each in statements(outer.body.node):
        calls = [call for call in calls_in(each) if ast.dump(call.func) == ast.dump(running.func)]
        if each.lineno >= outer.line or len(calls) != 1:
            continue
        given = [dotted(one) or "" for one in _given(calls[0])]
        name = next((one for one in given if any(outer.value(one) is held for held in stepped)), "")
        if name:
            found.append(_Call(outer.body.place(each), name))
    return found


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)]


def _by_helper(subject: Subject, case: Case, step: Changed, calls: Sequence[_Call]) -> Finding:
    """The step is the same line for every loss: what tells them apart is the calls of the helper."""
    outer, weight, last = subject.failure.users[1], subject.holder or "a weight", calls[-1]
    known = [call for call in calls if outer.value(call.optimizer) is subject.optimizer] or [last]
    given = _given(outer.running) if outer.running else []
    loss = next((name for each in given if (name := dotted(each)) and outer.value(name) is case.root), "the loss")
    made = _computing(subject, case, outer, last.place)
    certainty: Certainty | None = None if step.certainty == "seen" else step.certainty
    return explanation(
        f"{known[-1].optimizer}.step() changed {weight} between the forward pass of {loss} and its backward.",
        (
            *(shown(each, f"uses {weight} for {loss}.", certainty) for each in made[:1]),
            *(shown(each.place, f"steps {each.optimizer}, at line {step.place.line}.", certainty) for each in calls),
            shown(step.place, f"modifies {weight} in place, like every weight of that optimizer.", certainty),
            shown(outer.place, f"runs backward on {loss}."),
            *needs(subject, f"needs the original value of {weight}"),
            *([] if step.certainty == "seen" else unwatched()),
        ),
        _moved_below(outer, loss, made, last.place),
        source=known[-1].place,
        exact=step.certainty == "seen",
    )


def _moved_below(outer: Level, loss: str, made: Sequence[Place], last: Place) -> str:
    """To compute the loss after the steps: its lines are moved, where nothing between reads what they make."""
    if outer.body is None or not 0 < len(made) <= _MOST:
        return f"Compute {loss} below line {last.line}, `{last.text}`, with a new forward pass."
    numbers = {place.line for place in made}
    own = set[str]().union(*(bound(each) for each in statements(outer.body.node) if each.lineno in numbers))
    within = [each for each in statements(outer.body.node) if made[0].line < each.lineno <= last.line]
    taken = any(use.name in own for each in within if each.lineno not in numbers for use in uses(each))
    lines = listed([f"{place.line}, `{place.text}`," for place in made])
    what, edit = f"line{'s' * (len(made) > 1)} {lines}", (repeat if taken else move)(made, "below", last)
    return f"{'Repeat' if taken else 'Move'} {what} below line {last.line}, `{last.text}`{edit}."


def _in_order(subject: Subject, case: Case, level: Level | None, step: Changed, loss: str) -> str:
    """The fix; where the loss reaches the stepped weights through one value only, each way with what it does."""
    optimizer = step.name
    if each := each_again(level, loss):
        return f"{each} {_RETAINED}"
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
        f"weights. {OR}If it should, {again} {early}"
    )


def _repeated(subject: Subject, case: Case, level: Level | None, step: Changed) -> str:
    """Which lines that is: those before the step that give a name of the loss's a graph over the stepped weights."""
    if stored := _stored_again(subject, case, level, step):
        return stored
    made = _computing(subject, case, level, step.before) if level else []
    lines = {each.line for each in made}
    if not 0 < len(lines) <= _MOST:
        return ""
    which = f"line{'s' * (len(lines) > 1)} {listed([*map(str, sorted(lines))])}"
    return f": run {which} again below line {step.before.line}{repeat(made, 'below', step.before)}"


def _computing(subject: Subject, case: Case, level: Level, before: Place) -> list[Place]:
    """The statements above one that give a name of the loss's a graph over the stepped weights."""
    owner = subject.leaf.owner if subject.leaf else None
    mine = {leaf.node for leaf in case.graph.leaves if leaf.owner == owner}
    found = {
        place
        for name, each in (case.ancestors(level).items() if owner else ())
        if mine & set(below(case.graph, made_in(case.graph, level.value(name))))
        for place in each.bound
        if place.file == before.file and place.position < before.position
    }
    return sorted(found, key=lambda place: place.position)


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
    read = names_read(statement)
    known = all(each.partition(".")[0] == root and level.value(each) is not None for each in read)
    if subject.node.index not in below(graph, nodes) or beside or not known:
        return ""
    text = body.text(statement)
    return f": put `{text}` below line {step.before.end or step.before.line}{put(text, 'below', step.before)}"


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
    subject: Subject, case: Case, step: Changed, level: Level, found: Carrier | None, *, seen: bool
) -> Finding:
    """No step stands between: then the backward reaches an iteration before the last step."""
    weight = subject.holder or "a weight"
    carried = found is not None and found.kind == "carried"
    cut = _detachable(subject, case, level) if found and not carried else None
    name = cut[0] if cut else found.name if found else ""
    certainty = sure_if(seen)
    where = "the earlier graph" if carried or not name or cut else f"the graph of {name}"
    title = f"{name} was computed with weights that"
    if carried or cut or not name:
        into = "a part of the graph" if cut else "an earlier iteration" if carried else "an earlier graph"
        title = f"{name or 'This backward'} leads {'this backward ' * bool(name)}into {into}, whose weights"
    if cut:
        edit = Cut(case, level, *cut).edit
        fix = (
            f"If {case.loss} should not train {weight}, use {name}.detach() on line {cut[1].line}{edit}. If it should, "
            f"recompute {name} after {step.name}.step()."
        )
    elif found is not None:
        fix = renewed(found, _RETAINED)
    else:
        fix = f"Detach after each step what is carried over: hidden = hidden.detach(). {_RETAINED}"
    needed = f"needs the original value of {weight}; {since(subject)}"
    culprit = found.stored if found is not None and cut is None else None
    return explanation(
        f"{title} {step.name}.step() has since modified.",
        (
            *(how(found)[: 1 if cut else None] if found else ()),
            shown(cut[1], f"uses {name} of it." if found and name != found.name else "uses it again.") if cut else None,
            shown(step.place, f"has since modified {weight} in place; {where} still needs the old value.", certainty),
            shown(level.place, f"backpropagates into that graph, which {needed}."),
            *([] if seen else unwatched()),
        ),
        fix,
        source=culprit or step.place,
        exact=seen,
    )


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
            return f"use {self.name}.detach() on line {self.read.line}{self.edit}"
        return self._again(others)

    @property
    def edit(self) -> str:
        """What writes all that the loss reads of the variable without its graph."""
        new = each_detached(self.level.body, self.case.receiver, self.level.line, self.name)
        return "".join(str(write(lines_of(self.level.place.file, line), code)) for line, code in new.items())

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
            or mine[0].position < max(place.position for place in others)
        ):
            return ""
        nodes = [node for node in expressions(statement) if dotted(node) == self.name]
        new = rewritten(body, statement, dict.fromkeys(nodes, f"{self.name}.detach()"))
        return put_at(new, "above", mine[0]) if new and level.place.file == self.read.file else ""
