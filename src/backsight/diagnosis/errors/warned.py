"""BS216, BS217, BS227: warnings of a gradient that is read of a result, or holds its graph, or never comes."""

from __future__ import annotations

import ast
import re
from types import MethodType
from typing import Any

from backsight.diagnosis._torch import CHECKPOINT_FILE
from backsight.diagnosis.amending import is_known
from backsight.diagnosis.errors.registry import explains, explanation, unlocated
from backsight.diagnosis.evidence.gradients import Made, Read, gradient_read, made, updated_by_hand
from backsight.diagnosis.evidence.reentrant import reentrant_call, without_reentry
from backsight.diagnosis.evidence.spoken import names_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, failing, if_known, shown, tensor_of
from backsight.findings.evidence import Fact
from backsight.snapshot import survey
from backsight.source import Place, backward_calls, backward_roots, read_at
from backsight.source.bindings import Use, arms_of, uses
from backsight.source.body import callee, calls_in, dotted, expressions, is_constant, keyword, statements
from backsight.source.edits import OR, on_line, on_line_with, put, sentence, write
from backsight.story.failure import Failure
from backsight.story.memory import is_module, needs_gradient, shape_of
from backsight.story.modes import nearest_at
from backsight.tape import parameters_in


@explains("BS216", r"The \.grad attribute of a Tensor that is not a leaf Tensor is being accessed", severity="warning")
def gradient_of_result(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the tensor, the statement that computed it, and how to get at its gradient."""
    read = gradient_read(failure)
    if read is None or not read.is_result:
        return unlocated(
            failure,
            "The code reads .grad of a non-leaf tensor, but backward() sets .grad on leaves only.",
            "reads it.",
            "Call retain_grad() on the tensor right after it is computed, or use torch.autograd.grad(loss, tensor).",
        )
    return of_result(read, made(read), read.place)


def of_result(read: Read, origin: Made | None, source: Place) -> Finding:
    """How it came about, and how to have a gradient in it."""
    here = origin is not None and origin.place.position == read.place.position  # of the pass before
    what = tensor_of(shape_of(read.tensor))
    if other := _other_name(read, origin):
        says = f"computes {other}, {what}, which is {read.name} here."
    else:
        verb = "assigns" if origin and origin.passed else "computes"
        says = f"{verb} {read.name}, {what}{', for the next iteration' if here else ''}."
    if origin and origin.rewritten:
        fix = f"Make it a leaf by setting requires_grad last: {_written(read, origin)}."
        fix += "" if here else _afterwards(read)
    else:
        asked, where = _asked_of_a_kept_graph(read), below(origin, "retain_grad")
        fix = f"Call {read.name}.retain_grad() right after it is computed, before backward(){where}"
        direct = f"Or get the gradient directly: {asked or f'torch.autograd.grad(loss, {read.name})'}"
        fix = (
            f"Get the gradient directly: {asked}. {OR}Or c{fix[1:]}."
            if asked and not where
            else f"{fix}. {OR}{direct}."
        )
    return explanation(
        f"{read.name}.grad is None: {read.name} is a non-leaf tensor, and backward() sets .grad on leaves only.",
        (
            if_known(origin.leaf if origin else None, "creates a leaf: backward() sets its .grad."),
            if_known(origin.place if origin else None, says),
            None if here else shown(read.place, f"reads {read.text}.grad, which is None."),
        ),
        fix,
        source=source,
    )


def _other_name(read: Read, origin: Made | None) -> str:
    """What the tensor is called where it is computed, if another statement gave it the name by which it is read."""
    name = "" if origin is None or origin.passed else origin.name
    own = {name} & {read.name, read.text} or read.name.startswith(f"{name}[")
    return "" if own or name.rpartition(".")[2] == read.name.rpartition(".")[2] else name


def _asked_of_a_kept_graph(read: Read) -> str:
    """The statement that reads the gradient, asking for it instead, where the backward before has kept the graph."""
    body, statement = read_at(read.place)
    before = [each for each in backward_roots(body) if each[1].line < read.place.line]
    if body is None or statement is None or not before or not is_known("torch", read.place):
        return ""
    loss, place = before[-1]
    every = [call for call in calls_in(read_at(place)[1]) if callee(call)[1] == "backward"]
    kept = next((name for call in every for name in _KEEPING if is_constant(keyword(call, name), True)), "")
    given = [each for each in expressions(statement) if dotted(each) == f"{read.text}.grad"]
    new = f"torch.autograd.grad({loss}, {read.text}, {kept}=True)[0]"
    return on_line_with(body, statement, dict.fromkeys(given, new)) if kept and given else ""


_KEEPING = ("create_graph", "retain_graph")


def _afterwards(read: Read) -> str:
    """The update that reads the gradient, where it gives the same name to a new result."""
    body, statement = read.level.body, read.level.statement
    new = updated_by_hand(body, read.text, statement) if body and statement else None
    return f" {sentence(on_line(read.place, new))}." if new else ""


def below(origin: Made | None, method: str) -> str:
    """Where the tensor is told to keep its gradient, or to require one: below the statement that computes it."""
    body, statement = read_at(origin.place if origin is not None and origin.name else None)
    if origin is None or body is None or not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        return ""
    last: ast.stmt = statement
    call, own = f"{origin.name}.{method}()", arms_of(body, statement)
    after = [each for each in statements(body.node) if each.lineno > statement.lineno]
    ends = [each.line for each in backward_calls(body)]
    ends += [each.lineno for each in after if Use(f"{origin.name}.grad", False) in uses(each)]
    end = min((line for line in ends if line > statement.lineno), default=0)
    asking = [each for each in after if each.lineno < end and _asks(each, origin.name)]
    if method == "retain_grad" and asking and arms_of(body, asking[-1]) == own:  # before that it may be without
        last = asking[-1]
    return f": put `{call}` below line {last.end_lineno}{put(call, 'below', body.place(last))}"


def _asks(statement: ast.stmt, name: str) -> bool:
    """Whether a statement sets a tensor's requires_grad: `x.requires_grad_()`, `x.requires_grad = True`."""
    if isinstance(statement, ast.Assign) and is_constant(statement.value, True):
        return any(dotted(each) == f"{name}.requires_grad" for each in statement.targets)
    calls = [callee(call) for call in calls_in(statement)] if isinstance(statement, ast.Expr) else []
    return any(called == "requires_grad_" and of is not None and dotted(of) == name for of, called in calls)


def _written(read: Read, origin: Made) -> str:
    """What makes the leaf, on its line, with the updates of other leaves below: the errors that would come next."""
    new = origin.rewritten or ""
    first = on_line(origin.place, new)
    again = _alike(read) if origin.place.position == read.place.position else {}
    return " and ".join([first, *(f"on line {at.line}, `{new}`{write(at, new)}" for at, new in again.items())])


def _alike(read: Read) -> dict[Place, str]:
    """The statements below that do the same with other leaves, and what to write there."""
    body, found = read.level.body, dict[Place, str]()
    for each in statements(body):
        target = dotted(each.targets[0]) if isinstance(each, ast.Assign) else None
        is_leaf = each.lineno > read.place.line and bool(target) and needs_gradient(read.level.value(target or ""))
        new = updated_by_hand(body, target, each) if is_leaf and body and target else None
        if new and body:
            found[body.place(each)] = new
    return found


@explains("BS217", r"[Uu]sing backward\(\) with create_graph=True will create a reference cycle", severity="warning")
def gradient_cycle(failure: Failure, match: re.Match[str]) -> Finding:
    """Say which parameters are in the cycle, and how to have the gradients without it."""
    graph = survey(failure.roots, frames=failure.frames).graph if any(map(needs_gradient, failure.roots)) else None
    receiver = failure.user.receiver if failure.user else ""
    loss = receiver or next(iter(graph.root_names if graph else ()), "") or "loss"
    names = [leaf.name for leaf in graph.leaves if leaf.name] if graph else []
    puts = "stores gradients in .grad that have graphs of their own."
    lines: list[Fact] = [*failing(failure, puts)]
    of = names[0] if names else "a parameter"
    lines.append(
        f"{of} holds its gradient, the gradient holds its graph, and the graph holds {of}: none is freed until "
        f"{of}.grad is set to None."
    )
    in_modules = not names or any(leaf.module for leaf in graph.leaves) if graph else True
    wanted = "list(model.parameters())" if in_modules and not 0 < len(names) <= _FEW else f"[{', '.join(names)}]"
    return explanation(
        f"{loss}.backward(create_graph=True) creates a reference cycle: each .grad keeps the graph that computed it.",
        tuple(lines),
        f"Get the gradients as return values: gradients = torch.autograd.grad({loss}, {wanted}, create_graph=True). "
        "If you need them in .grad, set it to None as soon as you have used them.",
        source=failure.source,
        exact=graph is not None,
    )


_FEW = 3


@explains("BS227", r"None of the inputs have requires_grad=True\. Gradients will be None", severity="warning")
def frozen_inputs(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the call of checkpoint, what it runs, and how many parameters inside get no gradient."""
    module, method = _run(failure)
    name = names_of(failure, [module])[0] if module is not None else ""
    trained = [each for each in parameters_in(module) if needs_gradient(each)] if is_module(module) else []
    where = failure.user.place if failure.user else None
    asked = (shown(where, "runs it on inputs that do not require grad."),) if where else ()
    if any(nearest_at(level.body, level.line) for level in failure.users if level.body):  # PyTorch warns then too
        return explanation(
            "A reentrant checkpoint runs with gradients disabled, so none of its inputs requires grad, as expected.",
            asked,
            "Nothing is lost. In evaluation, call the function without the checkpoint: the result is the same.",
            source=failure.source,
            harmless=True,
        )
    if is_module(module) and not trained and not method:
        return explanation(
            f"{name or 'A module'} runs in a reentrant checkpoint, and nothing in it requires grad.",
            asked,
            f"Nothing is lost, because it is frozen. Call {name or 'it'} without the checkpoint, which saves no "
            "memory here.",
            source=failure.source,
            harmless=True,
        )
    many = f"The {counted(len(trained), 'parameter')} of {name}" if len(trained) > 1 else f"The parameter of {name}"
    what = many if trained and name and not method else "The function in this checkpoint"
    if method and name:
        what = f"The parameters that {name}.{method}() uses"
    verb = "get" if (what is many and len(trained) > 1) or (method and name) else "gets"
    call = reentrant_call(failure)
    return explanation(
        f"{what} {verb} no gradient: with use_reentrant=True, checkpoint records nothing if no input requires grad.",
        (*asked, call.passing if call is not None else None),
        without_reentry(failure, call) or _UNKNOWN,
        source=failure.source,
        exact=bool(trained),
    )


_UNKNOWN = "Set use_reentrant=False in the checkpoint, or give it an input that requires grad."


def _run(failure: Failure) -> tuple[object, str]:
    """The module that the checkpoint runs, and the name of the method where it runs another than the whole."""
    for level in reversed(failure.levels):
        if level.frame.f_code.co_filename == CHECKPOINT_FILE and "run_function" in level.variables:
            held: Any = level.variables["run_function"]
            method = held.__name__ if type(held) is MethodType else ""
            owner = held.__self__ if type(held) is MethodType else held
            return (owner, "" if method == "forward" else method) if is_module(owner) else (None, "")
    return None, ""
