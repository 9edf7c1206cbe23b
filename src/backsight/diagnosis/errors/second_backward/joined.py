"""Where this loss joins a graph that was freed: exact, from the lines and the backwards that a watch has noted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from backsight.diagnosis.errors.second_backward.case import Case, loops
from backsight.diagnosis.evidence.holders import below, made_in, needs_saved, node_of, results_held, results_in
from backsight.diagnosis.evidence.spoken import simple
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shaped, shown, were
from backsight.source import Body, LoopFacts, Place, assignments, loop_facts, statement_at
from backsight.source.bindings import bound, uses
from backsight.source.body import SCOPES, body_around, callee, expressions, statements
from backsight.source.keeping import Keeping, keepings
from backsight.story.changes import expression
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.memory import is_module
from backsight.story.sections import methods_of
from backsight.tape import Node
from backsight.tracing import Line
from backsight.tracing.steps import parameters


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
    keeping = filled(case, container) if container != joint.holder else None
    put = keeping.place if keeping else None
    name = joint.holder or _stored(joint) or _operand(case, joint) or _assigned(joint)
    name = name or f"the result of {joint.old.op}"
    lines = [shown(joint.made, f"computed {name if put is None else 'it'}.")] if joint.made else []
    if put is not None and (joint.made is None or put.position[0] != joint.made.line):
        lines.append(shown(put, f"keeps it in {container}, still attached to its graph."))
    else:
        keeping = keeping if keeping and expression(keeping.place.text) is not None else None
        put = None
    here = _local(case, joint)
    first = here.first if here else None
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
        (*lines, *([shown(first, "has run backward through it.")] if first else ()), *_freed(case), *doubt),
        _fix(case, joint, name, container, keeping),
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


def _fix(case: Case, joint: Joint, name: str, container: str, keeping: Keeping | None) -> str:
    if keeping is not None:
        return kept_detached(container, keeping)
    init = _assigned_once(case, name)
    if init is not None or (
        joint.made is not None and joint.made.function.endswith("__init__") and name.count(".") and _is_module(joint)
    ):
        where = f"line {init.line} of __init__" if init else "__init__"
        return (
            f"Compute {name} in forward, each time it is used: it depends on parameters that are trained, and {where} "
            "runs only once."
        )
    here = _local(case, joint)
    if here is not None and here.loop is None:
        return here.fix
    if _is_of_this_pass(case, joint):
        return f"Add the losses and call backward once, or compute {name} a second time for the second backward()."
    return (
        f"Compute {name} anew in each iteration, inside the loop that uses it. If what computes it is not meant to be "
        "trained here, compute it once under torch.no_grad()."
    )


def _assigned_once(case: Case, name: str) -> Place | None:
    """Where `__init__` assigns an attribute of a module, if no other method does."""
    owner, _, attribute = name.rpartition(".")
    held = next((value for level in case.failure.users if owner and (value := level.value(owner)) is not None), None)
    found = [(body, each) for body in methods_of(type(held)) for each in assignments(body, f"self.{attribute}")]
    once = is_module(held) and all(getattr(body.node, "name", "") == "__init__" for body, _ in found)
    return found[0][1] if found and once else None


@dataclass(frozen=True, eq=False)
class _Local:
    """A variable of a function that is still running, which holds the old result: it was made in this very call.

    place: the statement that made it. loop: the loop around the failing line that does not contain that statement.
    inner: a function that reads it from outside, and has run backward.
    first: the statement after it that read it, and may have run the earlier backward.
    """

    case: Case
    level: Level
    name: str
    place: Place
    loop: LoopFacts | None
    inner: str
    first: Place | None

    @property
    def fix(self) -> str:
        name = self.name
        if self.first is None and self.inner:
            return f"Compute {name} inside {self.inner}(), which runs backward each time that it is called."
        if self.first is None:
            return f"Add the losses and call backward once, or compute {name} a second time for the second backward()."
        detached = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.(])", f"{name}.detach()", self.first.text)
        if self._is_for_others:
            return f"Its optimizer does not train what made {name}. Write, in line {self.first.line}: {detached}."
        return (
            f"If line {self.first.line} is not to train what made {name}, write {detached}. If it is, add the losses "
            "and call backward once."
        )

    @property
    def _is_for_others(self) -> bool:
        """Whether the first statement has an optimizer, which trains nothing of what the result was computed from."""
        statement = statement_at(self.level.body, *self.first.position) if self.level.body and self.first else None
        held = [value_of(self.level, node) for node in expressions(statement)] if statement else []
        trained = {id(p) for each in held if isinstance(each, torch.optim.Optimizer) for p in parameters(each)}
        graph = self.case.graph
        nodes = set(below(graph, made_in(graph, self.level.value(self.name))))
        leaves = {id(leaf.tensor()) for leaf in graph.leaves if leaf.node in nodes}
        return bool(trained) and not trained & leaves


def _local(case: Case, joint: Joint) -> _Local | None:
    inner = ""
    for level in case.failure.users:
        for name, value in level.variables.items():
            if joint.old.index not in made_in(case.graph, value) or level.body is None or name.startswith("_"):
                continue
            made = assignments(level.body, name, before=level.line)
            if not made:
                inner = level.frame.f_code.co_name if name in level.frame.f_code.co_freevars else inner
                continue
            outside = [each for each in loops(level) if each.loop.file == made[-1].file and name not in each.assigned]
            between = [
                place
                for each in statements(level.body.node)
                if made[-1].position < (place := level.body.place(each)).position < level.place.position
                and not isinstance(each, SCOPES)
                and any(use.name == name and not use.binds for use in uses(each))
            ]
            running = [each for each in between if "(" in each.text and not _only_computes(level, each)]
            return _Local(case, level, name, made[-1], next(iter(outside), None), inner, next(iter(running), None))
    return None


def _only_computes(level: Level, place: Place) -> bool:
    """Whether a statement gives a variable what it computes: then it has not run backward."""
    statement = statement_at(level.body, *place.position) if level.body else None
    return isinstance(statement, ast.Assign) and any(results_in(level.value(each)) for each in bound(statement))


def _is_of_this_pass(case: Case, joint: Joint) -> bool:
    """Whether it was made in the very pass that failed, and another backward of this pass has freed it."""
    *before, failed = case.watch.backwards if case.watch else (None,)
    marks = [e.mark for e in before if e and failed and (e.line, e.thread) == (failed.line, failed.thread)]
    return bool(marks) and max(marks) <= (joint.old.sequence or 0)


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


def filled(case: Case, container: str) -> Keeping | None:
    """The statement that puts things into a container, in a function that runs or a method of its owner's class."""
    bodies = (pair for level in case.failure.users for pair in _bodies(level, container))
    return next((each for body, name in bodies for each in keepings(body, name)), None)


def kept_detached(container: str, keeping: Keeping) -> str:
    """What to do about results that a container keeps."""
    plain = keeping.value and simple(keeping.value) == keeping.value
    written = keeping.with_value(f"{keeping.value}.detach()") if plain else ""
    return (
        f"If {container} is to hold the results of one step only, empty it after each step. If it is to keep older "
        f"ones, put them into it detached: {written or 'append x.detach(), not x'}."
    )


def _bodies(level: Level, container: str) -> Iterator[tuple[Body, str]]:
    if level.body is not None:
        yield level.body, container
    owner, _, attribute = container.rpartition(".")
    held = level.value(owner) if owner else None
    if held is not None:
        yield from ((body, f"self.{attribute}") for body in methods_of(type(held)))
