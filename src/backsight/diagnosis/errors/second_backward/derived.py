"""A graph that `torch.autograd.grad` frees and that is still to be differentiated: again in a loop, or by the loss."""

from __future__ import annotations

import ast
import threading

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.source import Body, Place, statement_at
from backsight.source.body import body_around, calls_in, is_constant, keyword, statements
from backsight.source.changes import changed_names
from backsight.source.edits import OR, Edit, instead
from backsight.source.imports import is_gradient_call
from backsight.source.rewriting import simple
from backsight.story.attached import with_flag
from backsight.story.case import Case, loops
from backsight.story.failure import Level
from backsight.story.memory import is_tensor, needs_gradient
from backsight.story.stepping import optimizer_steps

_POSITIONS = 3
"""Arguments of `autograd.grad` before `retain_graph`, the last of them `grad_outputs`."""


def differentiated_again(case: Case) -> Finding | None:
    """A loop takes one derivative after the other of the same graph, as Hessian-vector products and rows of a Jacobian
    are: nothing is stepped in it, so that the graph is right in every iteration."""
    level = case.failure.user
    if level is None or case.failure.call != "grad" or _stepped(case):
        return None
    failing = _call(level.body, level.place)
    freeing = _freeing(case, level)
    every = ((each, facts) for each in case.failure.users for facts in loops(each))
    around, facts = next(every, (None, None))
    if failing is None or freeing is None or around is None or facts is None or _steps_in(case, around, facts.loop):
        return None
    body, statement, call = freeing
    place, same = body.place(statement), statement is failing[1]
    if same and not (_has_vector(call) or _is_part(around, call, body)):
        return None  # the same derivative each time: the weights must be others, and the graph is the old one
    if not same and not is_constant(keyword(failing[2], "create_graph"), True):
        return None
    of = simple(body.text(call.args[0])) if call.args else "its outputs"
    return explanation(
        f"torch.autograd.grad() freed the graph of {of}, and the next iteration differentiates it again.",
        (
            shown(place, f"differentiates {of}, which frees its graph."),
            None if same else shown(level.place, "needs it again in the next iteration."),
            shown(facts.loop, "does not recompute that graph."),
        ),
        f"Keep the graph for the next iteration: on line {place.line}, write `{_retaining(body, statement, call)}`"
        f"{_edit(body, statement, call, 'retain_graph')}. No optimizer steps in this loop, so the graph still matches "
        "the weights.",
        source=place,
        exact=case.earlier is not None,
    )


def differentiated(case: Case) -> Finding | None:
    """A part of the loss was differentiated on the way, by `torch.autograd.grad`, which freed what it went through."""
    earlier, level = case.earlier, case.failure.user
    if earlier is None or earlier.line is None or level is None or _stepped(case):
        return None
    found = _call(body_around(earlier.line.file, earlier.line.line), earlier.line.place)
    if found is None or (earlier.line.file, earlier.line.line) == (level.place.file, level.place.line):
        return None
    body, _, call = found
    if len(call.args) > _POSITIONS:
        return None
    of = simple(body.text(call.args[0])) if call.args else "its outputs"
    return explanation(
        f"torch.autograd.grad() freed the graph of {of}, and {case.loss}.backward() needs it, too.",
        (shown(earlier.line, f"differentiates {of}, which frees its graph."), shown(level.place, "needs it again.")),
        _kept(case, earlier.line.place, found),
        source=earlier.line,
    )


def _kept(case: Case, place: Place, found: tuple[Body, ast.stmt, ast.Call]) -> str:
    """How the call keeps its graph; where it says itself that the gradient has none, only what it went through."""
    body, statement, call = found
    if keyword(call, "create_graph", "retain_graph") is None:
        edits = [_edit(body, statement, call, flag) for flag in ("create_graph", "retain_graph")]
        return (
            f"Keep it: {body.text(call).rstrip(') ,')}, create_graph=True), so that {case.loss} trains through this "
            f"gradient, too{edits[0]}. {OR}If it needs only the gradient's values, retain_graph=True is enough"
            f"{edits[1]}."
        )
    edit = _edit(body, statement, call, "retain_graph")
    return f"Keep it: on line {place.line}, write `{_retaining(body, statement, call)}`{edit}."


def _edit(body: Body, statement: ast.stmt, call: ast.Call, flag: str) -> Edit | str:
    """What gives a call a flag."""
    new = with_flag(body, statement, call, flag)
    return instead(body, statement, new) if new else ""


def _stepped(case: Case) -> bool:
    """Whether an optimizer has stepped since the backward that freed the graph."""
    stepped = case.watch.steps.marks.get(threading.get_ident(), -1) if case.watch else -1
    return case.earlier is not None and case.earlier.mark <= stepped


def _steps_in(case: Case, around: Level, loop: Place) -> bool:
    """Whether a function that runs in the loop steps an optimizer, or the loop itself does."""
    inner = case.failure.users[: case.failure.users.index(around)]
    node = statement_at(around.body, *loop.position)
    last = (node.end_lineno if node is not None else None) or loop.line
    own = [each for each in statements(around.body.node) if loop.line <= each.lineno <= last] if around.body else []
    by_hand = (around.value(name) for each in own for name in changed_names(each))
    if any(is_tensor(each) and needs_gradient(each) for each in by_hand):
        return True
    steps = any(loop.line <= each.line <= last for each in optimizer_steps(around))
    return steps or any(optimizer_steps(each) for each in inner)


def _freeing(case: Case, level: Level) -> tuple[Body, ast.stmt, ast.Call] | None:
    """The call that freed the graph: as a watch has seen it, else the last of the function that keeps none."""
    if case.earlier is not None and case.earlier.line is not None:
        line = case.earlier.line
        found = [_call(body_around(line.file, line.line), line.place)]
    else:
        places = [level.body.place(each) for each in statements(level.body.node)] if level.body else []
        found = [_call(level.body, place) for place in reversed(places)]
    return next((each for each in found if each is not None and _frees(each[2])), None)


def _call(body: Body | None, place: Place) -> tuple[Body, ast.stmt, ast.Call] | None:
    """The call of `torch.autograd.grad` in a statement."""
    statement = statement_at(body, *place.position) if body else None
    call = next((each for each in calls_in(statement) if is_gradient_call(each)), None)
    return (body, statement, call) if body is not None and statement is not None and call is not None else None


def _frees(call: ast.Call) -> bool:
    kept = (keyword(call, name) for name in ("retain_graph", "create_graph"))
    return len(call.args) <= _POSITIONS and not any(each is not None and not is_constant(each, False) for each in kept)


def _has_vector(call: ast.Call) -> bool:
    return keyword(call, "grad_outputs") is not None or len(call.args) == _POSITIONS


def _is_part(around: Level, call: ast.Call, body: Body) -> bool:
    """Whether each iteration differentiates another part of one result, `y[i]`: a row of a Jacobian."""
    output = call.args[0] if call.args else None
    facts = next(iter(loops(around)), None)
    if output is None or facts is None or around.body is None or around.body.file != body.file:
        return False
    indices = (node.slice for node in ast.walk(output) if isinstance(node, ast.Subscript))
    read = {each.id for index in indices for each in ast.walk(index) if isinstance(each, ast.Name)}
    return bool(read & facts.assigned)


def _retaining(body: Body, statement: ast.stmt, call: ast.Call) -> str:
    """The statement with `retain_graph=True`."""
    text = f"{body.text(call)[:-1].rstrip(', ')}, retain_graph=True)"
    return with_flag(body, statement, call, "retain_graph") or text
