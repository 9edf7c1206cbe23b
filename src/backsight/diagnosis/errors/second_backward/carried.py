"""What brought an earlier graph, which is freed, into this pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.second_backward.repeated import keeping_graph
from backsight.diagnosis.evidence.carried import how, kind_of, older
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, if_known, listed, operations_were, shown, unwatched
from backsight.findings.evidence import Fact
from backsight.source import loop_facts, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.body import dotted
from backsight.source.edits import on_line, write
from backsight.story.carrier import Carrier
from backsight.story.carriers import carriers
from backsight.story.case import Case
from backsight.story.failure import Level
from backsight.story.histories import value_under
from backsight.story.holders import below, given, made_in, results_in, structure
from backsight.story.joints import joint_of
from backsight.story.renewing import renewed
from backsight.story.stepping import optimizer_steps, steps_of_pass
from backsight.tape import Node


def carried_over(case: Case) -> Finding | None:
    """The first of the carriers that fits."""
    found = next(carriers(case), None)
    if found is None:
        return None
    if (summed := losses_of_loop(found)) is not None:
        return summed
    passes = found.kind in ("carried", "summed")
    seen = steps_seen(case) if passes and found.span != "pass" else ()
    doubts = older(found)
    return explanation(
        _title(found),
        (*how(found), *_needed(found), *seen, *(() if _is_exact(found) else unwatched()), *doubts),
        renewed(found, why_not_retain(found) if passes and found.kind == "carried" else ""),
        source=found.dropped or found.stored or found.read or case.failure.source,
        exact=_is_exact(found) and not doubts,
    )


def _title(found: Carrier) -> str:
    name, kind, span = found.name, kind_of(found), found.span
    match found.kind:
        case "carried" if found.dropped is not None:
            return f"{found.inner} carries the graph of one {span} into the next: its detached copy is thrown away."
        case "carried" if len(found.alike) > 1:
            attribute, objects = name.rpartition(".")[2], listed(found.alike, 4)
            objects = objects if _is_exact(found) else objects.replace(" and ", " or ")
            carries = f"carries the graph of one {span} into the next"
            return f"{attribute} of {objects} {carries}, and backward() has freed that graph."
        case "carried":
            of = f" of {found.level.function}()" if found.waits else ""
            return (
                f"{name}{kind} carries the graph of one {span}{of} into the next, and backward() has freed that graph."
            )
        case "summed" if span == "pass":
            return f"{name} still holds the sum that an earlier backward() went through, and that graph is freed."
        case "summed":
            return (
                f"{name} adds up the losses of all iterations, and backward() has freed the graphs of the earlier ones."
            )
        case "written":
            inner, passes = found.keeping.name if found.keeping else name, "iterations" if found.facts else "passes"
            return (
                f"{inner}{kind} keeps the graphs of what earlier {passes} wrote into it, and backward() has freed them."
            )
        case "once" if found.when == "only in some iterations":
            return f"{name} is computed {found.when}: the others use a graph that backward() has freed."
        case "once" if found.when and (found.stored is not None or found.facts is not None):
            return f"{name} is computed once, {found.when}, and the first backward() has freed its graph."
        case "once":
            what = f"{name[:1].upper()}{name[1:]}" if name == "a result" else name
            return f"{what}{kind} was computed before an earlier backward(), which has freed its graph."
    if found.keeping is None:
        return f"{name} still holds results of earlier iterations, whose graphs backward() has freed."
    if found.facts is not None:
        return f"{found.variable} keeps results computed before the loop, whose graph the first backward() freed."
    if found.kind == "cached" or found.variable == name:
        return f"{name} keeps a result of an earlier step, whose graph backward() freed."
    return f"{found.variable} keeps results of earlier steps, whose graph an earlier backward() freed."


def _is_exact(found: Carrier) -> bool:
    if found.facts is not None and found.kind in ("once", "kept"):
        return found.stored is not None
    return found.sure and bool(found.case.joints)


def _needed(found: Carrier) -> Iterator[Fact]:
    """The backward that freed that graph, and the one that needs it again."""
    case, level = found.case, found.level
    failing = case.failure.user or level
    if found.kind == "summed" and found.span == "pass":
        yield shown(failing.place, "backpropagates through all of it, and needs that graph again.")
    elif found.kind == "summed":
        yield shown(level.place, "backpropagates through all of it in every iteration.")
    elif found.kind == "kept" and found.keeping is None:
        yield shown(level.place, "reaches what the previous iteration freed.")
    elif found.when == "only in some iterations":
        yield shown(level.place, "frees its graph, and needs it again in an iteration that has not computed it anew.")
    elif found.kind in ("once", "kept") and found.facts is not None:
        yield shown(
            (failing if found.waits else level).place,
            "frees its graph in the first iteration, and needs it again in the next.",
        )
    elif found.kind == "carried" and (found.waits or found.dropped):
        yield shown(
            failing.place, f"backpropagates into the graph of the previous {found.span}, which is already freed."
        )
    elif found.kind == "carried" and found.span != "pass":
        yield shown(
            level.place,
            f"backpropagates through this {found.span} into the graph of the previous one, which is already freed.",
        )
    elif case.earlier is not None:
        yield from freed(case)
    else:
        yield shown(failing.place, "backpropagates through it, and needs that graph again.")


def freed(case: Case) -> Iterator[Fact]:
    earlier, level = case.earlier, case.failure.user
    if earlier is not None and earlier.line is not None and level is not None:
        if earlier.line.line == level.place.line and earlier.line.file == level.place.file:
            yield shown(level.place, "freed that graph the last time it ran, and needs it again.")
            return
        yield shown(earlier.line, "freed that graph.")
    if level is not None:
        yield shown(level.place, "needs it again.")


def steps_seen(case: Case) -> tuple[str, ...]:
    """What a running watch knows of the operations from before the last step or backward; nothing without one."""
    joint, many = joint_of(case), counted(len(case.old), "operation")
    them = "it" if len(case.old) == 1 else "them"
    if not case.joints or (case.earlier is not None and joint is None):
        return ()
    if case.earlier is not None and joint is not None:
        by = f"The backward at {case.earlier.line}" if case.earlier.line else "An earlier backward"
        through = f"what {joint.made} computed" if joint.made else joint.old.name
        reaches = f"What was computed since reaches {them} through {through}."
        return (f"{by} already freed {many} of this graph. {reaches}",)
    names = listed([case.graph.nodes[i].name for i in case.joints], 3)
    return (
        f"{operations_were(len(case.old))} recorded before the last optimizer step; the new part "
        f"reaches {them} through {names}.",
    )


def why_not_retain(found: Carrier) -> str:
    """What becomes of graphs that are kept, by whether an optimizer steps between two passes."""
    for level in found.case.failure.users:  # innermost first
        facts = found.facts if level is found.level else None
        if steps_of_pass(level, facts) and _saves_what_is_trained(found):
            return "retain_graph=True won't help: the optimizer has since modified weights that graph saved."
        if facts or loop_facts(level.body, level.line):
            break
    return "With retain_graph=True, every iteration would backpropagate through all earlier ones."


def _saves_what_is_trained(found: Carrier) -> bool:
    """Whether the graph of what is carried saves a tensor that an optimizer modifies: `W` of `h @ W`, not that of
    `x @ W` nor of `W.exp()`."""
    case = found.case
    paths = [f"{owner}.{name.rpartition('.')[2]}" for owner in found.alike for name in found.names] or found.names
    carried = [i for each in paths for i in made_in(case.graph, value_under(found, each))] or case.joints
    for node in (case.graph.nodes[i] for i in below(case.graph, carried or range(len(case.graph)))):
        every = [*node.inputs]
        if node.op in _BIAS_AT and len(every) > 2:
            del every[_BIAS_AT[node.op]]
        operands = [each.node for each in every if each is not None]
        saved = {each.name for each in node.saved} - {"result", "output", "out"}
        whole = len(operands) > 1 or (len(every) == 1 and "self" in saved)
        if saved and whole and any(_is_trained(case, each) for each in operands):
            return True
    return False


_BIAS_AT = {"Addmm": 0, "Baddbmm": 0, "Linear": -1, "Convolution": -1}
"""Which operand is only added."""


def _is_trained(case: Case, node: Node) -> bool:
    """Whether a node is what an optimizer holds, or a view of it."""
    while node.op in ("T", "Transpose", "View", "Expand", "Unsqueeze", "Permute") and len(given(node)) == 1:
        node = given(node)[0]
    return any(leaf.node == node.index and leaf.owner for leaf in case.graph.leaves)


# Losses that share operations, each of which runs backward: those that a loop goes through.


def losses_of_loop(found: Carrier) -> Finding | None:
    """The loop goes through a container of losses that were computed before it, and runs backward on each."""
    level, facts, name = found.level, found.facts, found.variable
    loop = statement_at(level.body, *facts.loop.position) if facts is not None and found.kind == "once" else None
    if loop is None or level.body is None:
        return None
    value = level.value(name)
    several = type(value) in (list, tuple, dict)
    if several and any(each is found.case.root for each in results_in(value)):
        every = f"{name}.values()" if type(value) is dict else name
        fix = new = f"sum({every}).backward()"
    elif isinstance(loop, ast.For) and _runs_on(level, loop):
        every = level.body.text(loop.iter)
        fix, new = f"on sum({every})", f"sum({every}).backward()"
    else:
        return None
    edit = write(facts.loop, new) if facts is not None else ""
    among = f"in {name}" if several else f"that come from {name}"
    return explanation(
        f"The losses {among} share operations, and the first backward() has freed them.",
        (
            if_known(found.stored, f"computes {name} once, before the loop."),
            shown(level.place, "frees its graph in the first iteration, and needs it again in the next."),
        ),
        f"Add the losses and call backward once, instead of the loop: {fix}{edit}.",
        source=level.place,
    )


def _runs_on(level: Level, loop: ast.For) -> bool:
    """Whether the loop goes through losses, with backward on each, and no optimizer steps in it."""
    target = dotted(loop.target) or ""
    if level.body is None or level.receiver is None or not results_in(level.value(target)):
        return False
    steps = (each.line for each in optimizer_steps(level))
    is_loss = target == level.receiver or target in ancestors(level.body, level.receiver, level.line)
    return is_loss and not any(loop.lineno < line <= (loop.end_lineno or 0) for line in steps)


def among_others(case: Case) -> Finding | None:
    """The loss is one of several in a list, which share operations: the backward of another has freed them."""
    for level in case.failure.users:
        for name, value in level.variables.items():
            losses = results_in(value) if type(value) in (list, tuple) else []
            at = next((k for k, each in enumerate(losses) if each is case.root), 0)
            shared = [each for each in losses[:at] if case.graph.shared(structure(each))]
            failing = case.failure.user
            if not shared or level.body is None or failing is None:
                continue
            line = keeping_graph(failing)
            fix = (
                f"Keep the graph for the next one: {on_line(failing.place, line)}."
                if line
                else f"Add the losses and call backward once: sum({name}).backward()."
            )
            return explanation(
                f"The losses in {name} share operations, and the backward of an earlier one has freed them.",
                (
                    shown(level.place, f"loops over {name}."),
                    shown(failing.place, "frees the graph of each.") if level != failing else None,
                ),
                fix,
                source=failing.place,
            )
    return None
