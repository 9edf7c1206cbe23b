"""An optimizer changed the saved weight: `step()` ran between the forward pass and its backward, or the backward leads
into an earlier iteration."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from backsight.diagnosis.errors.modified.wording import needs, since
from backsight.diagnosis.errors.second_backward.carried import detached, first_read
from backsight.diagnosis.errors.second_backward.case import Case, loops
from backsight.diagnosis.evidence.holders import below, node_of, results_in
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.source import Place, assignments, statement_at
from backsight.source.body import expressions
from backsight.story.changes import Changed
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.subject import Subject

_UNSEEN = "(Read from the source text. Under `backsight run`, which notes every optimizer step, it is exact.)"


def changed_by_step(subject: Subject, steps: Sequence[Changed]) -> Finding | None:
    """The first of the steps that fits: one before the failing line, or one whose iteration the backward reaches."""
    case = Case(subject.failure, subject.survey)
    old, roots = subject.node.index in case.old, {root for root, _ in case.graph.root_edges}
    carried = _carried(case) if steps else None
    for step in steps:
        level = step.scene.level if step.scene else None
        if step.certainty == "seen":
            between = not old or level is None or bool(roots & case.old)
        elif level is None:
            continue
        else:
            between = step.before.position < level.place.position
        if between:
            return _between(subject, case, step, level or subject.failure.user)
        if level is not None and step.before == step.place and (carried or old):
            return _through_history(subject, step, level, carried, seen=old)
    return None


def _between(subject: Subject, case: Case, step: Changed, level: Level | None) -> Finding:
    """The step, or the call of a function that steps, stands between the forward pass and the failing line."""
    weight, optimizer = subject.holder or "a weight", step.name
    loss = case.loss if level is subject.failure.user else "the loss"
    where = "" if step.before == step.place else f" It was called at line {step.before.line}: {step.before.text}"
    forward = step.saver or (_forward(subject, case, level, step.before) if level else None)
    exact = step.certainty == "seen" or forward is not None or subject.node.index in case.old
    reason = "and saves it: the gradient of a product needs both factors."
    return Finding(
        "BS202",
        "error",
        f"{optimizer}.step() changed {weight} between the forward pass of {loss} and its backward.",
        (
            *([shown(forward, f"uses {weight}, {reason}")] if forward else []),
            shown(step.place, f"changes {weight} in place, like all weights that {optimizer} holds.{where}"),
            *needs(subject, f"needs the original value of {weight}"),
            *([] if exact else [_UNSEEN]),
        ),
        _in_order(subject, case, level, optimizer, loss),
        source=str(step.place),
        exact=exact,
    )


def _in_order(subject: Subject, case: Case, level: Level | None, optimizer: str, loss: str) -> str:
    """The fix; where the loss reaches the stepped weights through one value only, each way with what it does."""
    again = f"ompute {loss} after {optimizer}.step(), with a new forward pass"
    owner = subject.leaf.owner if subject.leaf else None
    cut = _detachable(case, level, owner) if level and owner else None
    if cut is None:
        return f"C{again}. Or call backward on every loss before the first optimizer steps."
    name, read = cut
    return (
        f"If {loss} is not to train what {optimizer} holds, use {name}.detach() in line {read.line}: then its "
        f"backward needs none of those weights. If it is, c{again}. (Backward on every loss before the first step "
        f"would run too, but {optimizer} then steps by the gradient of {loss} as well.)"
    )


def _forward(subject: Subject, case: Case, level: Level, step: Place) -> Place | None:
    """The last statement before the step that calls the model which owns the weight, on the way to the loss."""
    weight = subject.leaf.tensor() if subject.leaf else None
    places = {place.line: place for each in case.ancestors(level).values() for place in (*each.bound, each.read)}
    for line in sorted((line for line in places if line < step.line), reverse=True):
        statement = statement_at(level.body, line) if level.body else None
        for node in expressions(statement) if statement else ():
            value = value_of(level, node.func if isinstance(node, ast.Call) else node)
            if weight is not None and (value is weight or subject.is_owned_by(value)):
                return places[line]
    return None


def _detachable(case: Case, level: Level, owner: str) -> tuple[str, Place] | None:
    """Return the variable to detach so that the loss keeps nothing of the optimizer `owner`, and where it is read:
    `adv` of an actor's loss.

    None unless all that the variable was computed from is the optimizer's, all of the optimizer's that the loss
    depends on is reached through it, and another optimizer has something left to learn from the loss.
    """
    graph = case.graph
    mine = {leaf.node for leaf in graph.leaves if leaf.owner == owner}
    others = {leaf.node for leaf in graph.leaves if leaf.owner not in (None, owner)}
    leaves = {leaf.node for leaf in graph.leaves}
    found: list[tuple[int, str, Place]] = []
    for name, ancestor in case.ancestors(level).items():
        tensors = results_in(level.value(name))
        node = node_of(graph, tensors[0]) if len(tensors) == 1 else None
        if node is None or not leaves & set(below(graph, [node])) <= mine:
            continue
        around = set(below(graph, [root for root, _ in graph.root_edges], without={node}))
        if not mine & around and others & around:
            found.append((node, name, ancestor.read))
    nearest = min(found, key=lambda each: each[0], default=None)  # consumers come before producers
    return nearest[1:] if nearest else None


def _carried(case: Case) -> tuple[str, Place, object] | None:
    """A variable that takes a result with its history from one iteration, or one call, into the next: its name, the
    statement that reads it as it was left, and what it holds."""
    for level in case.failure.users:
        names = case.ancestors(level)
        for facts in loops(level):
            for name in names:
                if name in facts.carried and case.carries(level, name, read := facts.carried[name][0]):
                    return name, read, level.value(name)
        for name, each in names.items():
            assigned = assignments(level.body, name) if level.body and "." in name and each.entering else ()
            read = first_read(each, assigned)
            if assigned and case.carries(level, name, read):
                return name, read, level.value(name)
    return None


def _through_history(
    subject: Subject, step: Changed, level: Level, carried: tuple[str, Place, object] | None, *, seen: bool
) -> Finding:
    """No step stands between: then the backward reaches an iteration before the last step."""
    weight = subject.holder or "a weight"
    name, read, held = carried or ("A result of an earlier iteration", None, None)
    cut = detached(name, held) if carried else "hidden = hidden.detach(), for what is carried over"
    needed = f"needs the original value of {weight}; {since(subject)}"
    return Finding(
        "BS202",
        "error",
        f"{name} leads this backward into an earlier iteration, whose weights {step.name}.step() has changed since.",
        (
            *([shown(read, f"reads {name} from the previous iteration, still attached to its graph.")] if read else []),
            shown(step.place, f"has since modified {weight} in place; the earlier graph still needs the old value."),
            shown(level.place, f"backpropagates into that earlier graph, which {needed}."),
            *([] if seen else [_UNSEEN]),
        ),
        f"Detach after each step: {cut}. Then backward needs no retain_graph=True either.",
        source=str(read or step.place),
        exact=seen,
    )
