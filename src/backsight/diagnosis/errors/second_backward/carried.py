"""Results that are carried from one iteration, or one call, into the next: hidden states and running sums."""

from __future__ import annotations

import ast

import torch

from backsight.diagnosis.errors.second_backward.case import Case, loops
from backsight.diagnosis.errors.second_backward.joined import joined_at
from backsight.diagnosis.evidence.holders import results_held, results_in, structure
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shaped, shown, were
from backsight.naming.plain import class_dict, mro
from backsight.naming.roots import is_user_class
from backsight.source import Body, LoopFacts, Place, assignments, function_at, lets_through, loop_facts
from backsight.source.ancestry import Ancestor
from backsight.source.bindings import Use, uses
from backsight.source.body import body_around, statements
from backsight.source.in_place import in_place
from backsight.story.failure import Level, method
from backsight.story.stepping import optimizer_steps
from backsight.tape import Leaf

_INFERRED = (
    "(Read from the source text and from what is held now. Under `backsight run`, which takes note of every optimizer "
    "step, it is exact.)"
)


def carried_by_loop(case: Case) -> Finding | None:
    """A variable that an iteration reads before it assigns it holds a result with a history."""
    for level in case.failure.users:
        names = case.ancestors(level)
        for facts in loops(level):
            carriers = [n for n in names if n in facts.carried and case.carries(level, n, facts.carried[n][0])]
            if case.receiver in carriers[:1]:
                return _running_sum(case, level, case.receiver, facts)
            if carriers:
                return _finding(case, level, carriers, *facts.carried[carriers[0]], "iteration", facts)
    return None


def carried_by_function(case: Case) -> Finding | None:
    """What outlives a function that reads it before it assigns it, `self.hidden` or a global, holds a result."""
    for level in case.failure.users:
        outliving = _declared(level.body) if level.body else set()
        found: dict[str, tuple[Place, Place]] = {}
        for name, ancestor in case.ancestors(level).items():
            if level.body and ("." in name or name in outliving) and ancestor.entering:
                assigned = assignments(level.body, name)
                read = first_read(ancestor, assigned)
                if assigned and case.carries(level, name, read):
                    found[name] = read, assigned[-1]
        if found:
            return _finding(case, level, [*found], *found[next(iter(found))], "call")
    return None


def carried_by_object(case: Case) -> Finding | None:
    """An attribute of an object keeps a result of this graph, and the methods of its class both read and assign it."""
    found: dict[str, tuple[Place, Place]] = {}
    for tensor, name in results_held(case.failure.frames):
        owner, _, attribute = name.path.partition("[")[0].rpartition(".")
        if not owner or not case.graph.shared(structure(tensor)) or not case.is_joint(tensor):
            continue
        held = next((value for level in case.failure.users if (value := level.value(owner)) is not None), None)
        kept = _kept_by(type(held), f"self.{attribute}") if held is not None else None
        if kept is not None and owner == next(iter(found), f"{owner}.").rpartition(".")[0]:
            found.setdefault(f"{owner}.{attribute}", kept)
    first = next(iter(found), None)
    return _finding(case, case.failure.users[0], [*found], *found[first], "call", own=True) if first else None


def steps_seen(case: Case) -> tuple[str, ...]:
    """What a running watch knows of the operations from before the last step or backward; nothing without one."""
    if not case.joints:
        return ()
    if case.earlier is not None:
        return tuple(joined_at(case))
    names = listed([case.graph.nodes[i].name for i in case.joints], 3)
    return (
        f"{were(len(case.old), 'operations of this graph')} made before the last optimizer step; the new part "
        f"reaches {'it' if len(case.old) == 1 else 'them'} through {names}.",
    )


def _declared(body: Body) -> set[str]:
    """The names that a function declares `global` or `nonlocal`."""
    return {
        name for each in statements(body.node) if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names
    }


def first_read(ancestor: Ancestor, assigned: tuple[Place, ...]) -> Place:
    """Return the first of the statements that have to do with a name: that is where its old value comes in."""
    return min([ancestor.read, *assigned], key=lambda place: place.line)


def _kept_by(cls: type, name: str) -> tuple[Place, Place] | None:
    """Where a method of `cls` reads the attribute `name` with its history, and where it assigns it."""
    for base in mro(cls):
        if not is_user_class(class_dict(base).get("__module__")):
            continue
        for each in class_dict(base):
            function = method(base, each) if each != "__init__" else None
            body = function_at(function.__code__) if function else None
            assigned = assignments(body, name) if body is not None else ()
            read = _read(body, name) if body is not None and assigned else None
            if read is not None:
                return read, assigned[-1]
    return None


def _read(body: Body, name: str) -> Place | None:
    """The first statement that passes the history of `name` on; None where every one detaches it."""
    reading = (each for each in statements(body.node) if Use(name, False) in uses(each))
    return next((body.place(each) for each in reading if lets_through(each, name)), None)


def _finding(
    case: Case,
    level: Level,
    names: list[str],
    read: Place,
    assigned: Place,
    span: str,
    facts: LoopFacts | None = None,
    own: bool = False,
) -> Finding:
    """The first of `names` tells how they are carried; all of them have to be detached.

    own: whether these are attributes of an object whose own methods, which have returned, call it `self`.
    """
    name, seen = names[0], steps_seen(case)
    inner = f"self.{name.rpartition('.')[2]}" if own else name
    if read == assigned:
        how = [
            shown(
                read,
                f"reads {inner} from the previous {span}, still attached to its graph, and assigns it for the next.",
            )
        ]
    else:
        how = [
            shown(read, f"reads {inner} from the previous {span}, still attached to its graph."),
            shown(assigned, f"assigns it for the next {span}."),
        ]
    leaf = next((each for each in case.graph.leaves if each.owner and each.name == f"{name} (overwritten)"), None)
    value = results_in(level.value(name))
    fix = _kept(level, leaf, name, assigned) if leaf else _detach(case, level, names, assigned, facts, own)
    shape = f", a tensor of shape {shaped(value[0].shape)}," if len(value) == 1 else ""
    return Finding(
        "BS201",
        "error",
        f"{name}{shape} carries the graph of one {span} into the next, and backward() has freed that graph.",
        (
            *how,
            shown(
                level.place,
                f"backpropagates through this {span} into the graph of the previous one, which is already freed.",
            ),
            *(seen or (_INFERRED,)),
        ),
        fix,
        source=str(assigned),
        exact=bool(seen),
    )


def _detach(case: Case, level: Level, names: list[str], assigned: Place, facts: LoopFacts | None, own: bool) -> str:
    """Where a loop within the iteration, or the call, assigns it, say that detaching does not belong there."""
    body = body_around(assigned.file, assigned.line)
    within = loop_facts(body, assigned.line) if body else None
    if within is None or (facts is not None and within.loop == facts.loop) or _covers(within, level.place):
        spoken = {each: f"self.{each.rpartition('.')[2]}" if own else each for each in names}
        every = "; ".join(detached(spoken[each], level.value(each)) for each in names)
        return f"Detach after each step: {every}. {_why_not_retain(case)}"
    steps = [each for each in optimizer_steps(level) if each.line >= level.line] or [level.place]
    every = "; ".join(detached(each, level.value(each)) for each in names)
    return (
        f"Detach once a step, below line {steps[0].line}, {steps[0].text}, and not in the loop of line "
        f"{within.loop.line}: {every}. {_why_not_retain(case)}"
    )


def _covers(facts: LoopFacts, place: Place) -> bool:
    """Whether a statement stands in the loop."""
    body = body_around(place.file, place.line) if facts.loop.file == place.file else None
    around = loop_facts(body, place.line) if body else None
    while around is not None and around.loop != facts.loop:
        around = around.enclosing
    return around is not None


def detached(name: str, held: object) -> str:
    """Return the statement that cuts the history of a variable which holds `held`: a tensor, or containers of some."""
    if held is None:  # not to be read without running code
        return f"{name} = {name}.detach()"
    cut = _without_history(name, held)
    return f"{name} = {cut}" if cut else f"detach() every tensor that {name} holds"


def _without_history(name: str, held: object, inner: str = "each") -> str | None:
    """Return the expression for `held` without its history; None where it is not one line."""
    if isinstance(held, torch.Tensor):
        return f"{name}.detach()"
    if not isinstance(held, (dict, list, tuple)) or type(held) not in (dict, list, tuple):
        return None  # of a class of the user's, whose own code would run
    values = [*held.values()] if isinstance(held, dict) else [*held]
    each = "h" if values and isinstance(values[0], torch.Tensor) else inner
    cuts = {_without_history(each, value, "") for value in values} if each else set()
    cut = cuts.pop() if len(cuts) == 1 else None
    if cut is None:
        return None
    if type(held) is dict:
        return f"{{key: {cut} for key, {each} in {name}.items()}}"
    return f"[{cut} for {each} in {name}]" if type(held) is list else f"tuple({cut} for {each} in {name})"


def _kept(level: Level, leaf: Leaf, name: str, assigned: Place) -> str:
    """What to do where the variable held a leaf that an optimizer goes on updating, unseen: detaching loses it, too."""
    change = (in_place(level.body, name, assigned.line) if level.body else None) or f"{name}.copy_(...)"
    return (
        f"Let {name} stay the leaf that {leaf.owner} updates, and change it in place: `with torch.no_grad(): "
        f"{change}`. Or give the result another name. {name}.detach() won't help: {leaf.owner} does not hold what that "
        "makes."
    )


def _why_not_retain(case: Case) -> str:
    if any(optimizer_steps(level) for level in case.failure.users):
        return "retain_graph=True won't help: the optimizer has since modified weights that graph saved."
    return "retain_graph=True won't help: every iteration would backpropagate through all earlier ones."


def _running_sum(case: Case, level: Level, name: str, facts: LoopFacts) -> Finding:
    (read, assigned), seen = facts.carried[name], steps_seen(case)
    return Finding(
        "BS201",
        "error",
        f"{name} adds up the losses of all iterations, and backward() has freed the graphs of the earlier ones.",
        (
            shown(assigned, f"keeps {name} of the previous iteration, still attached to its graph."),
            shown(level.place, "goes back through all of it in every iteration."),
            *(seen or (_INFERRED,)),
        ),
        f"Call backward on the loss of this iteration alone, and add its value to {name} with .detach() or .item(); or "
        f"call {name}.backward() once, after the loop.",
        source=str(assigned if assigned != read else read),
        exact=bool(seen),
    )
