"""A graph that `torch.autograd.grad` frees and that is still to be differentiated: again in a loop, or by the loss."""

from __future__ import annotations

import ast
import threading

from backsight.diagnosis.errors.gradient_call import POSITIONS, GradientCall, gradient_call, gradient_calls
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.source import Place, read_at, statement_at
from backsight.source.bindings import target_names
from backsight.source.body import is_constant, keyword, statements
from backsight.source.changes import changed_names
from backsight.source.edits import OR
from backsight.source.rewriting import simple
from backsight.story.case import Case, loops
from backsight.story.failure import Level
from backsight.story.memory import is_tensor, needs_gradient
from backsight.story.stepping import optimizer_steps


def differentiated_again(case: Case) -> Finding | None:
    """A loop takes one derivative after the other of the same graph, as Hessian-vector products and rows of a Jacobian
    are: nothing is stepped in it, so that the graph is right in every iteration."""
    level = case.failure.user
    if level is None or case.failure.call != "grad" or _stepped(case):
        return None
    failing, freeing = gradient_call(level), _freeing(case, level)
    around, facts = next(((each, facts) for each in case.failure.users for facts in loops(each)), (None, None))
    if failing is None or freeing is None or around is None or facts is None or _steps_in(case, around, facts.loop):
        return None
    place, same, of = freeing.place, freeing.statement is failing.statement, _output(freeing)
    if same and not (freeing.is_weighted or _is_part(around, freeing)):
        return None  # the same derivative each time: the weights must be others, and the graph is the old one
    if not same and not is_constant(keyword(failing.node, "create_graph"), True):
        return None
    return explanation(
        f"torch.autograd.grad() freed the graph of {of}, and the next iteration differentiates it again.",
        (
            shown(place, f"differentiates {of}, which frees its graph."),
            None if same else shown(level.place, "needs it again in the next iteration."),
            shown(facts.loop, "does not recompute that graph."),
        ),
        f"Keep the graph for the next iteration: {_retaining(freeing)}. No optimizer steps in this loop, so the graph "
        "still matches the weights.",
        source=place,
        exact=case.earlier is not None,
    )


def differentiated(case: Case) -> Finding | None:
    """A part of the loss was differentiated on the way, by `torch.autograd.grad`, which freed what it went through."""
    earlier, level = case.earlier, case.failure.user
    if earlier is None or earlier.line is None or level is None or _stepped(case):
        return None
    call = next(gradient_calls(*read_at(earlier.line.place)), None)
    if call is None or (earlier.line.file, earlier.line.line) == (level.place.file, level.place.line):
        return None
    if len(call.node.args) > POSITIONS:
        return None
    of = _output(call)
    return explanation(
        f"torch.autograd.grad() freed the graph of {of}, and {case.loss}.backward() needs it, too.",
        (shown(earlier.line, f"differentiates {of}, which frees its graph."), shown(level.place, "needs it again.")),
        _kept(case, call),
        source=earlier.line,
    )


def _output(call: GradientCall) -> str:
    return simple(call.body.text(call.output)) if call.output is not None else "its outputs"


def _kept(case: Case, call: GradientCall) -> str:
    """How the call keeps its graph; where it says itself that the gradient has none, only what it went through."""
    if not call.is_silent:
        return f"Keep it: {_retaining(call)}."
    return (
        f"Keep it: {call.body.text(call.node).rstrip(') ,')}, create_graph=True), so that {case.loss} trains through "
        f"this gradient, too{call.flagging('create_graph')}. {OR}If it needs only the gradient's values, "
        f"retain_graph=True is enough{call.flagging('retain_graph')}."
    )


def _stepped(case: Case) -> bool:
    """Whether an optimizer has stepped since the backward that freed the graph."""
    stepped = case.watch.steps.marks.get(threading.get_ident(), -1) if case.watch else -1
    return case.earlier is not None and case.earlier.mark <= stepped


def _steps_in(case: Case, around: Level, loop: Place) -> bool:
    """Whether a function that runs in the loop steps an optimizer, or the loop itself does."""
    inner = case.failure.users[: case.failure.users.index(around)]
    node = statement_at(around.body, *loop.position)
    last = (node.end_lineno if node is not None else None) or loop.line
    own = [each for each in statements(around.body) if loop.line <= each.lineno <= last]
    by_hand = (around.value(name) for each in own for name in changed_names(each))
    if any(is_tensor(each) and needs_gradient(each) for each in by_hand):
        return True
    steps = any(loop.line <= each.line <= last for each in optimizer_steps(around))
    return steps or any(optimizer_steps(each) for each in inner)


def _freeing(case: Case, level: Level) -> GradientCall | None:
    """The call that freed the graph: as a watch has seen it, else the last of the function that keeps none."""
    if case.earlier is not None and case.earlier.line is not None:
        places = [read_at(case.earlier.line.place)]
    else:
        places = [(level.body, each) for each in reversed([*statements(level.body.node)])] if level.body else []
    found = (next(gradient_calls(*each), None) for each in places)
    return next((each for each in found if each is not None and each.frees), None)


def _is_part(around: Level, call: GradientCall) -> bool:
    """Whether each iteration differentiates another part of one result, `y[i]`: a row of a Jacobian."""
    facts = next(iter(loops(around)), None)
    if call.output is None or facts is None or around.body is None or around.body.file != call.body.file:
        return False
    indices = (node.slice for node in ast.walk(call.output) if isinstance(node, ast.Subscript))
    return bool(target_names(*indices) & facts.assigned)


def _retaining(call: GradientCall) -> str:
    """What to write, with `retain_graph=True`."""
    text = f"{call.body.text(call.node)[:-1].rstrip(', ')}, retain_graph=True)"
    new = call.flagged("retain_graph")
    return f"on line {call.place.line}, write `{new or text}`{call.flagging('retain_graph')}"
