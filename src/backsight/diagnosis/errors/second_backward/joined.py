"""Where this loss joins a graph that was freed: exact, from the lines and the backwards that a watch has noted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from backsight.diagnosis.errors.second_backward.case import Case
from backsight.diagnosis.evidence.holders import needs_saved, node_of, results_held
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shaped, shown, were
from backsight.source import Body, Place, assignments, loop_facts, statement_at
from backsight.source.body import body_around, callee, dotted, expressions, statements
from backsight.story.failure import Level
from backsight.story.sections import methods_of
from backsight.tape import Node
from backsight.tracing import Line

_ADDING = frozenset({"append", "appendleft", "add", "extend", "insert", "put", "update", "setdefault", "push"})


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


def joined(case: Case) -> Finding | None:
    """Name what leads from this loss into the freed graph."""
    if case.earlier is None:
        return None
    joint = _joint(case)
    if joint is not None:
        return _carried(case, joint) or _carried_by_element(case, joint) or _kept(case, joint)
    return _all_of_it(case) if len(case.old) == len(case.graph) - len(case.graph.leaves) else None


def joined_at(case: Case) -> Iterator[str]:
    """The joint, as evidence for what the text has shown."""
    joint = _joint(case)
    if joint is None or case.earlier is None:
        return
    by = f" at {case.earlier.line}" if case.earlier.line else ""
    yield (
        f"{were(len(case.old), 'operations of this graph')} made before the backward{by}, which freed them; the new "
        f"part reaches them through {joint.old.name}{f' of {joint.made}' if joint.made else ''}."
    )


def _joint(case: Case) -> Joint | None:
    """The joint at which backward fails: it goes through nodes from the newest to the oldest."""
    assert case.watch is not None
    nodes = case.graph.nodes
    found = [i for i in case.joints if nodes[i].kind != "leaf" and needs_saved(case.graph, i)]
    old = max((nodes[i] for i in found), key=lambda node: node.sequence or 0, default=None)
    if old is None:
        return None
    consumers = (node for node, edge in case.graph.edges if edge.node.index == old.index)
    new = min((node for node in consumers if node.index not in case.old), key=lambda node: node.sequence or 0)
    made = case.watch.line_of(old)
    lines = {line for i in found if (line := case.watch.line_of(nodes[i])) is not None and line != made}
    return Joint(old, new, made, case.watch.line_of(new), _holder(case, old), tuple(sorted(lines, key=str)))


def _holder(case: Case, node: Node) -> str:
    """The variable that holds the result of a node; one of a container's rather than what passed through a function."""
    held = (name.path for t, name in results_held(case.failure.frames) if node_of(case.graph, t) == node.index)
    return min(held, key=lambda path: ("[" not in path and "." not in path, len(path)), default="")


def _carried(case: Case, joint: Joint) -> Finding | None:
    """One statement reads what it assigned an iteration ago: `state["h"] = cell(x, state["h"])`."""
    if joint.made is None or joint.used is None or joint.made.place != joint.used.place:
        return None
    name = _assigned_and_read(joint.used) or _stored(joint)  # or reads it by another name, which it was given before
    if not name:
        return None
    return Finding(
        "BS201",
        "error",
        f"{name}, {_kind(joint.old)}, carries the graph of one pass into the next, and "
        "backward() has freed that graph.",
        (
            shown(
                joint.used, f"reads {name} from the previous pass, still attached to its graph, and assigns it anew."
            ),
            *_freed(case),
        ),
        f"Detach after each step: {name} = {name}.detach(). retain_graph=True won't help: the graph would "
        "grow with every pass.",
        source=str(joint.used),
    )


def _carried_by_element(case: Case, joint: Joint) -> Finding | None:
    """One statement of the loop passes an element on, `out, caches[k] = model(x, caches[k])`; the old one is gone.

    (`carried` finds variables. Of an element the text does not say which it is, so it has to be the only one.)
    """
    if joint.holder or joint.used is None:
        return None
    for level in case.failure.users:
        facts = loop_facts(level.body, level.line) if level.body else None
        if facts is None or level.body is None or level.place.file != facts.loop.file:
            continue
        places = [
            place for each in statements(level.body.node) if (place := level.body.place(each)).line > facts.loop.line
        ]
        passed = {place: name for place in places if "[" in (name := _passed_on(level.body, place.line))}
        if len(passed) != 1 or joint.used.line in {place.line for place in passed}:
            continue
        ((place, name),) = passed.items()
        return Finding(
            "BS201",
            "error",
            f"{name} carries the graph of one iteration into the next, and backward() has freed that graph.",
            (
                shown(
                    place,
                    f"reads {name} from the previous iteration, still attached to its graph, and assigns it anew.",
                ),
                shown(joint.used, "computes with it."),
                *_freed(case),
                "(Which element it was is read from the source text.)",
            ),
            f"Detach after each step: detach() every tensor that {name} holds. retain_graph=True won't help: "
            "the graph would grow with every pass.",
            source=str(place),
            exact=False,
        )
    return None


def _kept(case: Case, joint: Joint) -> Finding:
    container = joint.holder.partition("[")[0]
    put = _filled(case, container) if container != joint.holder else None
    name = joint.holder or _stored(joint) or _operand(case, joint) or _assigned(joint)
    name = name or f"the result of {joint.old.op}"
    lines = [shown(joint.made, f"computed {name if put is None else 'it'}.")] if joint.made else []
    if put is not None and (joint.made is None or put.position[0] != joint.made.line):
        lines.append(shown(put, f"keeps it in {container}, still attached to its graph."))
    else:
        put = None
    if joint.used and joint.used != joint.made:
        lines.append(shown(joint.used, f"computes with {name} again."))
    where = put or joint.made
    doubt = [shown(line, "made another result that is older than that backward.") for line in joint.others[:2]]
    if doubt:
        doubt.append("(Which of them that backward went through is not known.)")
    return Finding(
        "BS201",
        "error",
        f"{name}, {_kind(joint.old)}, was computed before an earlier backward(), which has freed its graph.",
        (*lines, *_freed(case), *doubt),
        _fix(case, joint, name, container, put),
        source=str(where) if where else case.failure.source,
        exact=joint.made is not None and not doubt,
    )


def _kind(node: Node) -> str:
    return f"a tensor of shape {shaped(node.shape)}" if node.shape else "a scalar"


def _freed(case: Case) -> Iterator[str]:
    earlier, level = case.earlier, case.failure.user
    if earlier is not None and earlier.line is not None and level is not None:
        if earlier.line.line == level.place.line and earlier.line.file == level.place.file:
            yield shown(level.place, "freed that graph when it ran before, and needs it again.")
            return
        yield shown(earlier.line, "freed that graph.")
    if level is not None:
        yield shown(level.place, "needs it again.")


def _fix(case: Case, joint: Joint, name: str, container: str, put: Place | None) -> str:
    if put is not None:
        return f"Put it into {container} detached: append x.detach(), not x."
    if joint.made is not None and joint.made.function.endswith("__init__") and name.count(".") and _is_module(joint):
        return (
            f"Compute {name} in forward, each time it is used: it depends on parameters that are trained, and "
            "__init__ runs only once."
        )
    if _is_of_this_pass(case, joint, name):
        return f"Add the losses and call backward once, or compute {name} a second time for the second backward()."
    return (
        f"Compute {name} anew in each iteration, inside the loop that uses it. If what computes it is not meant to be "
        "trained here, compute it once under torch.no_grad()."
    )


def _is_of_this_pass(case: Case, joint: Joint, name: str) -> bool:
    """Whether it was made in the very pass that failed, and another backward of this pass has freed it."""
    level = case.failure.user
    if level is None or level.body is None or case.watch is None:
        return False
    *before, failed = case.watch.backwards
    marks = [each.mark for each in before if (each.line, each.thread) == (failed.line, failed.thread)]
    if marks:
        return max(marks) <= (joint.old.sequence or 0)
    facts = loop_facts(level.body, level.line)
    return name in facts.assigned if facts is not None else bool(assignments(level.body, name))


def _is_module(joint: Joint) -> bool:
    """Whether the class that made it has a `forward`."""
    body = body_around(joint.made.file, 0) if joint.made else None
    classes = [each for each in body.node.body if isinstance(each, ast.ClassDef)] if body else []
    line = joint.made.line if joint.made else 0
    around = next((each for each in classes if each.lineno <= line <= (each.end_lineno or 0)), None)
    return any(isinstance(each, ast.FunctionDef) and each.name == "forward" for each in (around.body if around else ()))


def _all_of_it(case: Case) -> Finding:
    earlier, level = case.earlier, case.failure.user
    made = case.watch.line_of(case.graph.roots[0]) if case.watch else None
    seen = earlier.line if earlier is not None else None
    if seen is not None and level is not None and (seen.file, seen.line) != (level.place.file, level.place.line):
        return _twice(case, seen, level)
    again = seen is not None and level is not None and seen.file == level.place.file
    return Finding(
        "BS201",
        "error",
        f"{case.loss} was computed once, and backward() has run on it before.",
        (
            *((shown(made, f"computed {case.loss}, and was not run again."),) if made else ()),
            *(_freed(case) if again else ()),
        ),
        f"Compute {case.loss} anew, from a new forward pass, before each backward(). In a notebook: run the cell that "
        "computes it again, too.",
        source=case.failure.source,
        exact=made is not None,
    )


def _twice(case: Case, first: Line, level: Level) -> Finding:
    """Two statements run backward on the same loss, perhaps in different functions."""
    return Finding(
        "BS201",
        "error",
        f"backward() runs on {case.loss} a second time.",
        (shown(first, "ran first and freed the graph."), shown(level.place, "needs it again.")),
        f"Call backward on {case.loss} once: leave out one of the two. For gradients that are only looked at, "
        f"torch.autograd.grad({case.loss}, parameters, retain_graph=True) leaves the graph for the other.",
        source=str(level.place),
    )


def _operand(case: Case, joint: Joint) -> str:
    """What the program wrote for it where it was used."""
    operation = case.watch.operation_of(joint.new) if case.watch else None
    if operation is None or joint.new.op not in _IN_ORDER:
        return ""
    at = next((k for k, edge in enumerate(joint.new.inputs) if edge and edge.node.index == joint.old.index), None)
    return next((each.text for each in operation.operands if each.position == at and _PATH.fullmatch(each.text)), "")


_IN_ORDER = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "Mm", "Bmm", "Maximum", "Minimum"})
"""Operations whose node has an edge for each operand, in the order in which the program writes them."""

_PATH = re.compile(r"[A-Za-z_][\w.]*(\[[\w.\"']+\])*")


def _assigned_and_read(line: Line | None) -> str:
    """The one thing that a statement both assigns and reads, as it writes it: `state["h"]`."""
    body = body_around(line.file, line.line) if line else None
    return _passed_on(body, line.line) if body and line else ""


def _passed_on(body: Body, line: int) -> str:
    statement = statement_at(body, line)
    if not isinstance(statement, ast.Assign):
        return ""
    targets = _targets(body, statement)
    read = (body.text(node) for node in expressions(statement) if isinstance(getattr(node, "ctx", None), ast.Load))
    return next((text for text in read if text in targets), "")


def _stored(joint: Joint) -> str:
    """The attribute or element to which a statement assigns what it made: it outlives the function."""
    name = _assigned(joint)
    return name if "." in name or "[" in name else ""


def _assigned(joint: Joint) -> str:
    """The one thing to which a statement assigns what it made; empty if that is only a part of what it computes."""
    line = joint.made
    body = body_around(line.file, line.line) if line else None
    statement = statement_at(body, line.line) if body and line else None
    if body is None or line is None or not isinstance(statement, ast.Assign):
        return ""
    outermost = callee(statement.value)[1] if isinstance(statement.value, ast.Call) else ""
    is_all = line.segment == body.text(statement.value) if line.segment else outermost == joint.old.op.lower()
    targets = _targets(body, statement)
    return targets.pop() if is_all and len(targets) == 1 else ""


def _targets(body: Body, statement: ast.Assign) -> set[str]:
    parts = [part for each in statement.targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
    return {body.text(each) for each in parts if not isinstance(each, ast.Starred)}


def _filled(case: Case, container: str) -> Place | None:
    """The statement that puts things into a container, in a function that runs or a method of its owner's class."""
    for level in case.failure.users:
        for body, name in _bodies(level, container):
            for each in statements(body.node):
                if any(_adds(node, name) for node in expressions(each)):
                    return body.place(each)
    return None


def _bodies(level: Level, container: str) -> Iterator[tuple[Body, str]]:
    if level.body is not None:
        yield level.body, container
    owner, _, attribute = container.rpartition(".")
    held = level.value(owner) if owner else None
    if held is not None:
        yield from ((body, f"self.{attribute}") for body in methods_of(type(held)))


def _adds(node: ast.expr, name: str) -> bool:
    if isinstance(node, ast.Call):
        receiver, method = callee(node)
        return method in _ADDING and dotted(receiver) == name
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and dotted(node.value) == name
