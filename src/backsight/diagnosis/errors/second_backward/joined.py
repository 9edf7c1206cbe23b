"""What only a watch tells of a graph that was freed: results of a block or of tasks in turn, and a loss used twice."""

from __future__ import annotations

import ast

import torch

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.second_backward.carried import among_others, freed
from backsight.diagnosis.errors.second_backward.repeated import once
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import if_known, shown, tensor_of
from backsight.source import assignments
from backsight.source.bindings import spots
from backsight.source.body import LOOPS, body_around, callee, calls_in, dotted, is_compound, statements
from backsight.source.edits import move, unwrap, wrap
from backsight.story.case import Case
from backsight.story.failure import Level
from backsight.story.fixes import removed
from backsight.story.joints import Joint, joint_by_argument, joint_of
from backsight.tracing import Line


def joined(case: Case) -> Finding | None:
    """Name what leads from this loss into the freed graph, where no variable does."""
    if case.earlier is None:
        return None
    if (turns := joint_by_argument(case)) is not None and joint_of(case) is None:
        return _in_turns(case, turns)
    return _all_of_it(case) if len(case.old) == len(case.graph) - len(case.graph.leaves) else None


def _in_turns(case: Case, joint: Joint) -> Finding:
    """Each call computes a loss from the same result, and only then do they run backward, one after the other."""
    level = case.failure.user
    function = level.function.rpartition(".")[2] if level is not None else ""
    source = joint.made or case.failure.source
    return explanation(
        f"{joint.holder}, {tensor_of(joint.old.shape)}, was computed before an earlier backward(), which has freed its "
        "graph.",
        (
            if_known(joint.made, f"computed {joint.holder}."),
            if_known(joint.used, f"computes {case.loss} from it in each call, before any backward."),
            *freed(case),
        ),
        f"Add the losses and call backward once: let {function}() return {case.loss} instead, and run backward on the "
        f"sum. Or compute {joint.holder} for each call.",
        source=source or None,
    )


def parametrized_once(case: Case) -> Finding | None:
    """A `with parametrize.cached():` around the loop: a parametrized weight is computed once for all iterations."""
    joint = joint_of(case)
    for level in case.failure.users if joint is not None and not joint.holder else ():
        body = level.body
        around = next((s.arms for s in spots(body) if s.node is level.statement), ())
        arms = [arm for arm, _ in around]
        for k, arm in enumerate(arms):
            items = [item.context_expr for item in arm.items] if isinstance(arm, ast.With) else []
            made = [level.value(dotted(each.func) or "") for each in items if isinstance(each, ast.Call)]
            loop = next((each for each in arms[k:] if isinstance(each, LOOPS)), None)
            if body is not None and loop is not None and torch.nn.utils.parametrize.cached in made:
                place = body.place(arm)
                edits = f"{unwrap(place)}{wrap([*map(body.place, loop.body)], place.text)}"
                return explanation(
                    "A parametrized weight is computed once for all iterations, and backward() has freed its graph.",
                    (shown(place, "caches what is computed until the block ends."), *freed(case)),
                    f"Put `{place.text}` inside the loop, around the forward and backward of one iteration{edits}.",
                    source=place,
                )
    return None


def _all_of_it(case: Case) -> Finding:
    earlier, level = case.earlier, case.failure.user
    if (told := among_others(case)) is not None:
        return told
    made = case.watch.line_of(case.graph.roots[0]) if case.watch else None
    seen = earlier.line if earlier is not None else None
    if seen is not None and level is not None and (seen.file, seen.line) != (level.place.file, level.place.line):
        return explanation(
            f"backward() runs on {case.loss} a second time.",
            (shown(seen, "ran first and freed the graph."), shown(level.place, "needs it again.")),
            f"Call backward on {case.loss} once: {_once(level, seen)}. To only inspect gradients, "
            f"torch.autograd.grad({case.loss}, parameters, retain_graph=True) keeps the graph for the other.",
            source=level.place,
        )
    return explanation(
        f"{case.loss} was computed once, and backward() already ran on it.",
        (
            if_known(made, f"computed {case.loss} and did not run again."),
            *(freed(case) if seen is not None and level is not None else ()),
        ),
        f"Recompute {case.loss}, with a new forward pass, before each backward(). In a notebook, also rerun the cell "
        "that computes it.",
        source=case.failure.source,
        exact=made is not None,
    )


def _once(level: Level, seen: Line) -> str:
    """Which of two calls goes, where a function that is called above has run the first."""
    inside = body_around(seen.file, seen.line)
    above = (each for each in statements(level.body) if each.lineno < level.line and not is_compound(each))
    runs = [each for each in above if inside and any(callee(call)[1] == inside.name for call in calls_in(each))]
    return once(level, level.body.place(runs[-1])) if runs and level.body is not None else removed(level.place)


def computed_outside(case: Case) -> Finding | None:
    """The loss itself is computed once, and a function that is called again and again, as a closure is, goes back."""
    level, name = case.failure.user, case.receiver
    if level is None or not name.isidentifier() or assignments(level.body, name):
        return None
    if case.earlier is not None and len(case.old) < len(case.graph) - len(case.graph.leaves):
        return None  # a part of it is new
    around = next((each for each in case.failure.users if assignments(each.body, name)), None)
    places = assignments(around.body, name) if around is not None else ()
    if around is None or len(places) != 1 or around.value(name) is not case.root:
        return None
    function = level.function.rpartition(".")[2]
    first = level.body.place(level.body.node.body[0]) if level.body is not None else level.place
    return explanation(
        f"{name} was computed once, outside {function}(), and backward() already ran on it.",
        (
            shown(places[0], f"computes {name} once."),
            shown(level.place, f"frees its graph in the first call of {function}(), and needs it again."),
        ),
        f"Move line {places[0].line}, `{places[0].text}`, into {function}(), above line {first.line}"
        f"{move(places[0], 'above', first)}, so each call recomputes it.",
        source=places[0],
        exact=case.earlier is not None,
    )
