"""The same loss twice: backward runs on it again, or in every iteration of a loop that does not compute it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from backsight.diagnosis.errors.gradient_call import gradient_calls
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.source import Place, assignments, backward_roots, only, read_at, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import are_alternatives, names_read, prefixes, uses
from backsight.source.body import begins, callee, calls_in, statements
from backsight.source.changes import changed_names
from backsight.source.edits import OR, Edit, move, repeat, write
from backsight.story.case import Case, loops
from backsight.story.failure import Level
from backsight.story.fixes import removed
from backsight.story.holders import results_in
from backsight.story.recomputing import along
from backsight.story.stepping import steps_in


def same_loss(case: Case) -> Finding | None:
    """The very tensor whose backward failed has been through backward before."""
    for level in case.failure.users:
        for name in [name for name in names_read(level.statement) if _is_root(case, level, name)]:
            before = _earlier_call(level, name)
            if before is not None:
                return _called_twice(level, name, before)
            if level.value(name) is None:
                continue  # a property, or what a call has returned: computed whenever it is asked for
            for facts in loops(level):
                if facts.assigned.isdisjoint(prefixes(name)):
                    asks = level is case.failure.user and not _is_trained_in(level, facts.loop)
                    kept = keeping_graph(level, facts.assigned) if asks else ""
                    by = "torch.autograd.grad()" if case.failure.call == "grad" else "backward()"
                    return _once_before_loop(case, level, name, facts.loop, kept, by)
    return None


def _is_root(case: Case, level: Level, name: str) -> bool:
    """Whether backward was called on this variable; a scaler calls it on a multiple of the loss that the text names."""
    return level.value(name) is case.root or (level is case.failure.user and name == case.receiver)


def _earlier_call(level: Level, name: str) -> Place | None:
    """The last backward on `name` before this line, if `name` is not assigned in between."""
    assert level.body is not None
    here = level.place.position
    every = (place for each in prefixes(name) for place in assignments(level.body, each))
    made = [place.position for place in every if place.position < here]
    for root, place in reversed(backward_roots(level.body)):
        if are_alternatives(level.body, place, level.place):
            continue
        if max(made, default=(0, 0)) < place.position < here and root == name:
            return None if retains(place) else place
    return None


def retains(place: Place) -> bool:
    return "retain_graph=True" in place.text or "create_graph=True" in place.text


def _called_twice(level: Level, name: str, before: Place) -> Finding:
    return explanation(
        f"backward() runs on {name} a second time.",
        (shown(before, "ran first and freed the graph."), shown(level.place, "needs it again.")),
        f"Call backward on {name} once: {once(level, before)}. {OR}For derivatives of derivatives, give the first "
        "call create_graph=True; for separate gradients of several losses, use torch.autograd.grad(loss, parameters).",
        source=level.place,
    )


def once(level: Level, before: Place) -> str:
    """Which of two calls goes: the later, as what stands between may use the gradients, but the former where these are
    zeroed in between, and not used until then. What runs the former one in a function may use them there."""
    body, here = level.body, level.place
    every = statements(body)
    between = [each for each in every if before.position < begins(each) < here.position]
    zeroing = next((each for each in between if any(callee(c)[1] == "zero_grad" for c in calls_in(each))), None)
    steps = {each.place.position for each in steps_in(level)}
    if body is None or zeroing is None or any(begins(each) in steps for each in between):
        return removed(here)
    until = between[: between.index(zeroing)]
    is_call = any(place == before for _, place in backward_roots(body))
    if is_call and not any(
        isinstance(node, ast.Attribute) and node.attr == "grad" for each in until for node in ast.walk(each)
    ):
        return removed(before)
    place = body.place(zeroing)
    return f"{removed(here)}, and move line {place.line} above line {before.line}{move(place, 'above', before)}"


def _is_trained_in(level: Level, loop: Place) -> bool:
    """Whether a loop may change what its loss is computed from: an optimizer steps, or it works in place."""
    around = statement_at(level.body, *loop.position)
    for node in ast.walk(around) if around is not None else ():
        if isinstance(node, ast.Call) and callee(node)[1] in ("step", "backward"):
            return True
        if isinstance(node, ast.stmt) and changed_names(node):
            return True
    return around is None


def _once_before_loop(case: Case, level: Level, name: str, loop: Place, kept: str, by: str) -> Finding:
    made = assignments(level.body, name, before=loop.line)
    where = shown(made[-1], "computes it before the loop.") if made else f"{level.function} receives it once."
    return explanation(
        f"{name} is computed once, and {by} runs on it in every iteration.",
        (
            where,
            shown(loop, "does not compute it again."),
            shown(level.place, "frees its graph in the first iteration, and needs it again in the next."),
        ),
        f"Keep its graph, as no weight changes in the loop: on line {level.line}, write `{kept}`"
        f"{write(level.place, kept)}."
        if kept
        else f"Compute {name} inside the loop, from a new forward pass{along(level, made)}"
        f"{_inside(level, made, loop)}: {_outdated(case, level, loop, by)}.",
        source=level.place if kept else made[-1] if made else level.place,
    )


def _inside(level: Level, made: Sequence[Place], loop: Place) -> Edit | str:
    """What runs the last of some statements in a loop, too, and the others that compute what it reads."""
    body, statement = read_at(made[-1]) if made else (None, None)
    if body is None or level.body is None or body.node is not level.body.node or not isinstance(statement, ast.Assign):
        return ""
    every = ancestors(body, body.text(statement.value), statement.lineno).items()
    before = {place for name, each in every if results_in(level.value(name)) for place in each.bound}
    before = {each for each in before if each.line < statement.lineno}
    return repeat(sorted({*before, made[-1]}, key=lambda each: each.position), "below", loop)


def _outdated(case: Case, level: Level, loop: Place, by: str) -> str:
    """Why the graph from before a loop will not do inside it: what steps there, or works in place, if known."""
    around = statement_at(level.body, *loop.position)
    inside = [each for each in ast.walk(around) if isinstance(each, ast.stmt)] if around is not None else []
    lines = {each.lineno for each in inside}
    stepping = next((each for each in steps_in(level) if each.place.line in lines), None)
    if stepping is not None:
        return f"after {stepping.call} the weights have changed"
    changed = dict.fromkeys(name for each in inside for name in sorted(changed_names(each)))
    leaves = {id(leaf.tensor()) for leaf in case.graph.leaves}
    inputs = [name for name in changed if id(level.value(name)) in leaves]
    if inputs:
        return f"{listed(inputs)} {'changes' if len(inputs) == 1 else 'change'} in each iteration"
    return f"each {by} needs a graph of its own"


def keeping_graph(level: Level, assigned: Collection[str] = ()) -> str:
    """Return the statement of a level with `retain_graph=True` in its one call of `grad`; empty if it has none, or one
    that says already what becomes of the graph, or if it asks for what is `assigned` anew."""
    call = only(gradient_calls(level.body, level.statement))
    asked = {use.name for use in uses(call.inputs)} if call is not None else set()
    return call.flagged("retain_graph") if call and call.is_silent and asked.isdisjoint(assigned) else ""
