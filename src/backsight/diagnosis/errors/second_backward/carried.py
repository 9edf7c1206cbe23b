"""Results that are carried from one iteration, or one call, into the next: hidden states and running sums."""

from __future__ import annotations

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.second_backward.joined import joined_at
from backsight.diagnosis.evidence.carried import Carried, carried, detaching
from backsight.diagnosis.evidence.case import Case
from backsight.diagnosis.evidence.holders import below, results_in
from backsight.diagnosis.evidence.joints import joint_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, operations_were, shown, tensor_of, unwatched
from backsight.findings.evidence import Certainty
from backsight.source import Place, statement_at
from backsight.source.in_place import in_place
from backsight.story.failure import Level
from backsight.story.stepping import optimizer_steps
from backsight.tape import Leaf


def carried_over(case: Case) -> Finding | None:
    """A variable that an iteration, or a call, reads before it assigns it holds a result with a history."""
    found = carried(case)
    if found is None:
        return None
    return _running_sum(case, found) if found.facts and found.name == case.receiver else _finding(case, found)


def steps_seen(case: Case) -> tuple[str, ...]:
    """What a running watch knows of the operations from before the last step or backward; nothing without one."""
    if not case.joints:
        return ()
    if case.earlier is not None:
        return tuple(joined_at(case))
    names = listed([case.graph.nodes[i].name for i in case.joints], 3)
    return (
        f"{operations_were(len(case.old))} recorded before the last optimizer step; the new part "
        f"reaches {'it' if len(case.old) == 1 else 'them'} through {names}.",
    )


def _finding(case: Case, found: Carried) -> Finding:
    """The first of the names tells how they are carried; all of them have to be detached."""
    level, name, inner, span = found.level, found.name, found.inner, found.span
    read, assigned, seen = found.read, found.assigned, steps_seen(case)
    certainty: Certainty | None = None if seen else "read"
    if read == assigned:
        how = [
            shown(
                read,
                f"reads {inner} from the previous {span}, still attached to its graph, and assigns it for the next.",
                certainty,
            )
        ]
    else:
        how = [
            shown(read, f"reads {inner} from the previous {span}, still attached to its graph.", certainty),
            shown(assigned, f"assigns it for the next {span}.", certainty),
        ]
    leaf = next((each for each in case.graph.leaves if each.owner and each.name == f"{name} (overwritten)"), None)
    value = results_in(level.value(name))
    fix = _kept(level, leaf, name, assigned) if leaf else f"{detaching(found)} {why_not_retain(case)}"
    fix = _stored_results(case) or fix if leaf is None else fix
    shape = f", {tensor_of(value[0].shape)}," if len(value) == 1 else ""
    return explanation(
        f"{name}{shape} carries the graph of one {span} into the next, and backward() has freed that graph.",
        (
            *how,
            shown(
                level.place,
                f"backpropagates through this {span} into the graph of the previous one, which is already freed.",
            ),
            *(seen or unwatched()),
        ),
        fix,
        source=str(assigned),
        exact=bool(seen),
    )


def _stored_results(case: Case) -> str:
    """What to do about stored results that are all of what a loss trains through: without their graphs, it trains
    nothing."""
    graph, joint = case.graph, joint_of(case)
    owned = {leaf.node for leaf in graph.leaves if leaf.owner}
    beside = below(graph, [root for root, _ in graph.root_edges], without=set(case.joints))
    if not owned or joint is None or joint.made is None or owned & set(beside):
        return ""
    return (
        f"Store what line {joint.made.line}, `{joint.made.place.text}`, is computed from, and compute it again in each "
        f"step: it is all that {case.loss} trains through; detached, it would train nothing."
    )


def _kept(level: Level, leaf: Leaf, name: str, assigned: Place) -> str:
    """What to do where the variable held a leaf that an optimizer goes on updating, unseen: detaching loses it, too."""
    change = (in_place(level.body, name, assigned.line) if level.body else None) or f"{name}.copy_(...)"
    return (
        f"Keep {name} the leaf that {leaf.owner} updates, and modify it in place: `with torch.no_grad(): {change}`. Or "
        f"give the result another name. {name}.detach() won't help: {leaf.owner} does not hold the new tensor."
    )


def why_not_retain(case: Case) -> str:
    if any(optimizer_steps(level) for level in case.failure.users):
        return "retain_graph=True won't help: the optimizer has since modified weights that graph saved."
    return "retain_graph=True won't help: every iteration would backpropagate through all earlier ones."


def _running_sum(case: Case, found: Carried) -> Finding:
    level, name, read, assigned, seen = found.level, found.name, found.read, found.assigned, steps_seen(case)
    loop = statement_at(level.body, *found.facts.loop.position) if found.facts is not None else None
    ends = f", below line {loop.end_lineno}" if loop is not None else ""
    return explanation(
        f"{name} adds up the losses of all iterations, and backward() has freed the graphs of the earlier ones.",
        (
            shown(
                assigned,
                f"keeps {name} of the previous iteration, still attached to its graph.",
                None if seen else "read",
            ),
            shown(level.place, "backpropagates through all of it in every iteration."),
            *(seen or unwatched()),
        ),
        f"Call backward on the loss of this iteration alone, and add its value to {name} with .detach() or .item(); or "
        f"call {name}.backward() once, after the loop{ends}.",
        source=str(assigned if assigned != read else read),
        exact=bool(seen),
    )
