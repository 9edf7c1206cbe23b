"""Where this loss joins a graph that was freed: exact, from the lines and the backwards that a watch has noted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from threading import get_ident

import torch

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.second_backward.containers import filled
from backsight.diagnosis.errors.second_backward.local import local_of
from backsight.diagnosis.errors.second_backward.losses import keeping_graph
from backsight.diagnosis.errors.second_backward.recomputing import fix_of, stored_at
from backsight.diagnosis.evidence.case import Case
from backsight.diagnosis.evidence.holders import needs_saved, node_of, results_held, results_in, structure
from backsight.diagnosis.evidence.joints import (
    Joint,
    assigned,
    joint_by_argument,
    joint_of,
    passed_on,
    passed_on_by_one,
    stored,
)
from backsight.diagnosis.evidence.spoken import simple
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, listed, operations_were, shown, tensor_of
from backsight.findings.evidence import Fact
from backsight.source import Body, Place, loop_facts, parsed, read_at
from backsight.source.bindings import spots
from backsight.source.body import LOOPS, body_around, callee, dotted, expressions, statements
from backsight.story.failure import Level
from backsight.story.memory import is_tensor
from backsight.tape import Node
from backsight.tracing import Line


def joined(case: Case) -> Finding | None:
    """Name what leads from this loss into the freed graph."""
    if case.earlier is None:
        return None
    joint = joint_of(case)
    if joint is not None:
        return (
            _carried(case, joint)
            or _carried_by_element(case, joint)
            or _written_into(case, joint)
            or _parametrized_once(case, joint)
            or _kept(case, joint)
        )
    if (turns := joint_by_argument(case)) is not None:
        return _in_turns(case, turns)
    return _all_of_it(case) if len(case.old) == len(case.graph) - len(case.graph.leaves) else None


def joined_at(case: Case) -> Iterator[str]:
    """The joint, as evidence for what the text has shown."""
    joint = joint_of(case)
    if joint is None or case.earlier is None:
        return
    by = f"The backward at {case.earlier.line}" if case.earlier.line else "An earlier backward"
    many = counted(len(case.old), "operation")
    them = "it" if len(case.old) == 1 else "them"
    made = f", created at {joint.made}" if joint.made else ""
    through = f"{joint.old.name}{made}"
    yield f"{by} already freed {many} of this graph. What was computed since reaches {them} through {through}."


def _in_turns(case: Case, joint: Joint) -> Finding:
    """Each call computes a loss from the same result, and only then do they run backward, one after the other."""
    level = case.failure.user
    function = level.function.rpartition(".")[2] if level is not None else ""
    source = joint.made or case.failure.source
    return explanation(
        f"{joint.holder}, {_kind(joint.old)}, was computed before an earlier backward(), which has freed its graph.",
        (
            *([shown(joint.made, f"computed {joint.holder}.")] if joint.made else []),
            *(
                [shown(joint.used, f"computes {case.loss} from it in each call, before any backward.")]
                if joint.used
                else []
            ),
            *_freed(case),
        ),
        f"Add the losses and call backward once: let {function}() return {case.loss} instead, and run backward on the "
        f"sum. Or compute {joint.holder} for each call.",
        source=str(source) if source else None,
    )


def _carried(case: Case, joint: Joint) -> Finding | None:
    """One statement reads what it assigned an iteration ago."""
    found = passed_on_by_one(case, joint)
    if found is None:
        return None
    name = found.name
    held = next((value for level in case.failure.users if (value := level.value(name)) is not None), None)
    several = type(held) is tuple and all(map(is_tensor, held))
    detached = f"tuple(each.detach() for each in {name})" if several else f"{name}.detach()"
    return explanation(
        f"{name}, {'a tuple with ' * several}{_kind(joint.old)}, carries the graph of one pass into the next, and "
        "backward() has freed that graph.",
        (
            shown(found.read, f"reads {name} from the previous pass, still attached to its graph, and reassigns it."),
            *_freed(case),
        ),
        f"Detach after each step: {name} = {detached}. retain_graph=True won't help: the graph would grow with every "
        "pass.",
        source=str(found.read),
    )


def _carried_by_element(case: Case, joint: Joint) -> Finding | None:
    """One statement of the loop passes an element on, `out, caches[k] = model(x, caches[k])`; the old one is gone.

    (`carried` finds variables. Of an element the text does not say which it is, so it has to be the only one.)
    """
    if joint.holder or joint.used is None:
        return None
    for level in case.failure.users:
        facts = loop_facts(level.body, level.line)
        if facts is None or level.body is None or level.place.file != facts.loop.file:
            continue
        places = [
            place for each in statements(level.body.node) if (place := level.body.place(each)).line > facts.loop.line
        ]
        passed = {place: name for place in places if "[" in (name := passed_on(level.body, place.line))}
        if len(passed) != 1 or joint.used.line in {place.line for place in passed}:
            continue
        ((place, name),) = passed.items()
        return explanation(
            f"{name} carries the graph of one iteration into the next, and backward() has freed that graph.",
            (
                shown(
                    place,
                    f"reads {name} from the previous iteration, still attached to its graph, and reassigns it.",
                    "read",
                ),
                shown(joint.used, "uses it."),
                *_freed(case),
            ),
            f"Detach after each step: detach() every tensor that {name} holds. retain_graph=True won't help: "
            "the graph would grow with every pass.",
            source=str(place),
            exact=False,
        )
    return None


def _written_into(case: Case, joint: Joint) -> Finding | None:
    """An attribute into whose tensor each pass writes, `self.cache[t] = k`, each with its graph."""
    made = joint.made
    body, statement = read_at(made.place if made is not None and joint.old.op in _WRITES else None)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    name = dotted(target.value) if isinstance(target, ast.Subscript) else None
    if made is None or body is None or not isinstance(statement, ast.Assign) or name is None or "." not in name:
        return None
    alike = _written_alike(body, name)
    lines = [shown(place, f"writes into {other}, too.") for other, place in alike.items() if other != name]
    dropped = "; ".join(f"{each} = {each}.detach()" for each in alike)
    fix = f"Drop the old graphs at the start of each pass: {dropped}."
    if not any(_is_read_back(body, each) for each in alike):
        value = simple(body.text(statement.value))
        values = _values_only(body, name) or f"{body.text(target) if target is not None else name} = {value}.detach()"
        fix += f" Or store only values: {values}."
    return explanation(
        f"{name}, {_kind(joint.old)}, keeps the graphs of what earlier passes wrote into it, and backward() has freed "
        "them.",
        (shown(made.place, f"writes into {name} a tensor that is still attached to its graph."), *lines, *_freed(case)),
        fix,
        source=str(made),
    )


def _written_alike(body: Body, name: str) -> dict[str, Place]:
    """This attribute and the others of its object into whose tensors the function writes as well, by where it does."""
    found: dict[str, Place] = {}
    for each in statements(body.node):
        target = each.targets[0] if isinstance(each, ast.Assign) else None
        held = (dotted(target.value) or "") if isinstance(target, ast.Subscript) else ""
        if not isinstance(each, ast.Assign) or held.rpartition(".")[0] != name.rpartition(".")[0]:
            continue
        detached = isinstance(each.value, ast.Call) and callee(each.value)[1] == "detach"
        attached = not detached and not isinstance(each.value, ast.Constant)
        if held == name or (attached and _is_read_back(body, held) == _is_read_back(body, name)):
            found.setdefault(held, body.place(each))
    return found


def _is_read_back(body: Body, name: str) -> bool:
    """Whether the function reads what it has written into the attribute: its graph is needed, then."""
    written = [each.lineno for each in statements(body.node) if isinstance(each, ast.Assign) and _writes(each, name)]
    return any(
        dotted(node) == name
        for each in statements(body.node)
        if each.lineno > min(written, default=0) and not (isinstance(each, ast.Assign) and _writes(each, name))
        for node in expressions(each)
    )


def _writes(statement: ast.Assign, name: str) -> bool:
    target = statement.targets[0]
    return isinstance(target, ast.Subscript) and dotted(target.value) == name


def _values_only(body: Body, name: str) -> str:
    """Each of several statements that write into a part of a tensor, with values alone; empty of a single one."""
    found = [
        f"on line {each.lineno}, `{body.text(each.targets[0])} = {simple(body.text(each.value))}.detach()`"
        for each in statements(body.node)
        if isinstance(each, ast.Assign)
        and isinstance(each.targets[0], ast.Subscript)
        and dotted(each.targets[0].value) == name
    ]
    return listed(found) if len(found) > 1 else ""


def _parametrized_once(case: Case, joint: Joint) -> Finding | None:
    """A `with parametrize.cached():` around the loop: a parametrized weight is computed once for all iterations."""
    for level in case.failure.users if not joint.holder else ():
        around = next((s.arms for s in spots(level.body.node) if s.node is level.statement), ()) if level.body else ()
        arms = [arm for arm, _ in around]
        for k, arm in enumerate(arms):
            items = [item.context_expr for item in arm.items] if isinstance(arm, ast.With) else []
            made = [level.value(dotted(each.func) or "") for each in items if isinstance(each, ast.Call)]
            if torch.nn.utils.parametrize.cached in made and any(isinstance(each, LOOPS) for each in arms[k:]):
                place = level.body.place(arm) if level.body else level.place
                return explanation(
                    "A parametrized weight is computed once for all iterations, and backward() has freed its graph.",
                    (shown(place, "caches what is computed until the block ends."), *_freed(case)),
                    f"Put `{place.text}` inside the loop, around the forward and backward of one iteration.",
                    source=str(place),
                )
    return None


def _kept(case: Case, joint: Joint) -> Finding:
    container = joint.holder.partition("[")[0]
    keeping = filled(case, container) if container != joint.holder else None
    put = keeping.place if keeping else None
    name = joint.holder or stored(joint) or _operand(case, joint) or assigned(joint)
    known, name = _outlives(joint, name), name or f"the result of {joint.old.op}"
    here = local_of(case, joint)
    made = here.place if here and here.inner else joint.made
    elsewhere = ", in another thread: `with torch.no_grad():` around the call that starts it does not reach there"
    operation = case.watch.operation_of(joint.old) if case.watch and made == joint.made else None
    where = elsewhere if operation and operation.thread != get_ident() else ""
    lines = [shown(made, f"computed {name if put is None else 'it'}{where}.")] if made else []
    if put is not None and (joint.made is None or put.position[0] != joint.made.line):
        lines.append(shown(put, f"stores it in {container}, still attached to its graph."))
    else:
        keeping = keeping if keeping and parsed(keeping.place.text) is not None else None
        put = None
    first = here.first if here else None
    if joint.used and joint.used != joint.made:
        lines.append(shown(joint.used, f"uses {name} again."))
    kept_at = stored_at(case, name) if put is None else None
    if kept_at is not None and joint.made is not None and kept_at.position[0] != joint.made.line:
        lines.insert(1, shown(kept_at, f"stores it in {name}, once."))
    at = put or (here.place if here and here.inner else kept_at or joint.made)
    lines += [shown(place, f"computed {other}, too.") for other, place in here.beside.items()] if here else []
    older = "computed another result that is older than that backward."
    unknown = {i for i in case.joints if needs_saved(case.graph, i)} - (here.nodes if here and here.inner else set())
    doubt: list[Fact] = [shown(line, older) for line in joint.others[:2]] if unknown else []
    if doubt:
        doubt.append("(It is unknown which of them that backward went through.)")
    return explanation(
        f"{name}, {_kind(joint.old)}, was computed before an earlier backward(), which has freed its graph.",
        (*lines, *([shown(first, "already ran backward through it.")] if first else ()), *_freed(case), *doubt),
        fix_of(case, joint, name, container, keeping, known=known),
        source=str(at) if at else case.failure.source,
        exact=joint.made is not None and not doubt,
    )


def _outlives(joint: Joint, name: str) -> bool:
    """Whether it is known that a name holds the old result until it is used again.

    A variable of a function that has returned does not; it does in the loop of a generator that was made before it.
    """
    if name != assigned(joint) or "." in name or "[" in name or name == joint.holder:
        return bool(name)
    made, used = joint.made, joint.used
    body = body_around(made.file, made.line) if made else None
    facts = loop_facts(body, used.line) if body and used and made and used.file == made.file else None
    return facts is not None and name in facts.outside


def _kind(node: Node) -> str:
    return tensor_of(node.shape)


def _freed(case: Case) -> Iterator[Fact]:
    earlier, level = case.earlier, case.failure.user
    if earlier is not None and earlier.line is not None and level is not None:
        if earlier.line.line == level.place.line and earlier.line.file == level.place.file:
            yield shown(level.place, "freed that graph the last time it ran, and needs it again.")
            return
        yield shown(earlier.line, "freed that graph.")
    if level is not None:
        yield shown(level.place, "needs it again.")


_WRITES = ("CopySlices", "IndexPut")
"""The operations of `x[a:b] = y` and of `x[positions] = y`."""


def _among_others(case: Case) -> Finding | None:
    """The loss is one of several in a list, which share operations: the backward of another has freed them."""
    for level in case.failure.users:
        for name, value in level.variables.items():
            losses = results_in(value) if type(value) in (list, tuple) else []
            at = next((k for k, each in enumerate(losses) if each is case.root), 0)
            shared = [each for each in losses[:at] if case.graph.shared(structure(each))]
            if not shared or level.body is None or case.failure.user is None:
                continue
            line = keeping_graph(case.failure.user)
            fix = (
                f"Keep the graph for the next one: on line {case.failure.user.line}, write `{line}`."
                if line
                else f"Add the losses and call backward once: sum({name}).backward()."
            )
            return explanation(
                f"The losses in {name} share operations, and the backward of an earlier one has freed them.",
                (
                    shown(level.place, f"loops over {name}."),
                    *(
                        [shown(case.failure.user.place, "frees the graph of each.")]
                        if level != case.failure.user
                        else []
                    ),
                ),
                fix,
                source=str(case.failure.user.place),
            )
    return None


def _all_of_it(case: Case) -> Finding:
    earlier, level = case.earlier, case.failure.user
    if (told := _among_others(case)) is not None:
        return told
    made = case.watch.line_of(case.graph.roots[0]) if case.watch else None
    seen = earlier.line if earlier is not None else None
    if seen is not None and level is not None and (seen.file, seen.line) != (level.place.file, level.place.line):
        return _twice(case, seen, level)
    again = seen is not None and level is not None and seen.file == level.place.file
    return explanation(
        f"{case.loss} was computed once, and backward() already ran on it.",
        (
            *((shown(made, f"computed {case.loss} and did not run again."),) if made else ()),
            *(_freed(case) if again else ()),
        ),
        f"Recompute {case.loss}, with a new forward pass, before each backward(). In a notebook, also rerun the cell "
        "that computes it.",
        source=case.failure.source,
        exact=made is not None,
    )


def _twice(case: Case, first: Line, level: Level) -> Finding:
    """Two statements run backward on the same loss, perhaps in different functions."""
    return explanation(
        f"backward() runs on {case.loss} a second time.",
        (shown(first, "ran first and freed the graph."), shown(level.place, "needs it again.")),
        f"Call backward on {case.loss} once: remove one of the two calls. To only inspect gradients, "
        f"torch.autograd.grad({case.loss}, parameters, retain_graph=True) keeps the graph for the other.",
        source=str(level.place),
    )


def _operand(case: Case, joint: Joint) -> str:
    """What the program wrote for it where it was used."""
    operation = case.watch.operation_of(joint.new) if case.watch else None
    if operation is None:
        return ""
    at = next((k for k, edge in enumerate(joint.new.inputs) if edge and edge.node.index == joint.old.index), None)
    given = [each.text for each in operation.operands if not isinstance(parsed(each.text), ast.Constant)]
    if len(given) == 1 and given[0].isidentifier() and joint.new.sequence == operation.first:
        return given[0]
    ordered = operation.operands if joint.new.op in _IN_ORDER else ()
    return next((each.text for each in ordered if each.position == at and _PATH.fullmatch(each.text)), "")


_IN_ORDER = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "Mm", "Bmm", "Maximum", "Minimum"})
"""Operations whose node has an edge for each operand, in the order in which the program writes them."""

_PATH = re.compile(r"[A-Za-z_][\w.]*(\[[\w.\"']+\])*")


def held_since_step(case: Case) -> Finding | None:
    """Variables hold the very results through which this loss reaches operations from before the last step."""
    if not case.joints:
        return None
    nodes = ((node_of(case.graph, tensor), tensor, name.path) for tensor, name in results_held(case.failure.frames))
    held = [(node, tensor, path) for node, tensor, path in nodes if node in case.joints]
    containers = {path.partition("[")[0] for _, _, path in held}
    if len(containers) != 1 or case.failure.user is None:
        return None
    name, several = containers.pop(), len(held) > 1
    is_part = held[0][2] != name
    what = (
        f"{name} still holds {counted(len(held), 'result')}"
        if is_part
        else f"{name}, {tensor_of(held[0][1].shape)}, is a result"
    )
    return explanation(
        f"{what} from before the last optimizer step, and an earlier backward() freed the graph behind "
        f"{'them' if several else 'it'}.",
        (
            shown(case.failure.user.place, f"backpropagates through {listed([path for _, _, path in held], 3)}."),
            f"{operations_were(len(case.old))} recorded before the last optimizer step, as the watch has seen.",
        ),
        _emptied(name, len({node for node, _, _ in held})),
        source=case.failure.source,
        exact={node for node, _, _ in held} >= set(case.joints),
    )


def _emptied(name: str, made: int) -> str:
    if made > 1:  # one after the other, in a loop
        return f"Empty {name} after each optimizer step, {name}.clear(), or store only detached results in it."
    return (
        f"Recompute what {name} holds in each step. If nothing behind it is trained here, compute it once under "
        "torch.no_grad()."
    )
