"""BS216: the gradient of a tensor is read that is the result of a computation, so that backward leaves none in it."""

from __future__ import annotations

import ast
import re

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.gradients import Made, Read, gradient_read, made, updated_by_hand
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, if_known, shown, tensor_of
from backsight.source import Place, read_at
from backsight.source.body import dotted, statements
from backsight.source.edits import OR, put, write
from backsight.story.failure import Failure
from backsight.story.memory import needs_gradient, shape_of


@explains("BS216", r"The \.grad attribute of a Tensor that is not a leaf Tensor is being accessed", severity="warning")
def gradient_of_result(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the tensor, the statement that computed it, and how to get at its gradient."""
    read = gradient_read(failure)
    if read is None or not read.is_result:
        return _by_message(failure)
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
        fix = (
            f"Call {read.name}.retain_grad() right after it is computed, before backward()"
            f"{below(origin, 'retain_grad')}. {OR}Or get the gradient directly: torch.autograd.grad(loss, {read.name})."
        )
    return explanation(
        f"{read.name}.grad is None: {read.name} is a non-leaf tensor, and backward() sets .grad on leaves only.",
        (
            if_known(origin.leaf if origin else None, "creates a leaf: backward() sets its .grad."),
            if_known(origin.place if origin else None, says),
            None if here else shown(read.place, f"reads {read.text}.grad, which is None."),
        ),
        fix,
        source=str(source),
    )


def _other_name(read: Read, origin: Made | None) -> str:
    """What the tensor is called where it is computed, if another statement gave it the name by which it is read."""
    name = "" if origin is None or origin.passed else origin.name
    own = {name} & {read.name, read.text} or read.name.startswith(f"{name}[")
    return "" if own or name.rpartition(".")[2] == read.name.rpartition(".")[2] else name


def _afterwards(read: Read) -> str:
    """The update that reads the gradient, where it gives the same name to a new result."""
    body, statement = read.level.body, read.level.statement
    new = updated_by_hand(body, read.text, statement) if body and statement else None
    return f" On line {read.place.line}, write `{new}`{write(read.place, new)}." if new else ""


def below(origin: Made | None, method: str) -> str:
    """Where the tensor is told to keep its gradient, or to require one: below the statement that computes it."""
    body, statement = read_at(origin.place if origin is not None and origin.name else None)
    if origin is None or body is None or not isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
        return ""
    call = f"{origin.name}.{method}()"
    return f": put `{call}` below line {statement.end_lineno}{put(call, 'below', body.place(statement))}"


def _written(read: Read, origin: Made) -> str:
    """What makes the leaf, on its line, with the updates of other leaves below: the errors that would come next."""
    new = origin.rewritten or ""
    first = f"on line {origin.place.line}, write `{new}`{write(origin.place, new)}"
    again = _alike(read) if origin.place.position == read.place.position else {}
    return " and ".join([first, *(f"on line {at.line}, `{new}`{write(at, new)}" for at, new in again.items())])


def _alike(read: Read) -> dict[Place, str]:
    """The statements below that do the same with other leaves, and what to write there."""
    body, found = read.level.body, dict[Place, str]()
    for each in statements(body.node) if body else ():
        target = dotted(each.targets[0]) if isinstance(each, ast.Assign) else None
        is_leaf = each.lineno > read.place.line and bool(target) and needs_gradient(read.level.value(target or ""))
        new = updated_by_hand(body, target, each) if is_leaf and body and target else None
        if new and body:
            found[body.place(each)] = new
    return found


def _by_message(failure: Failure) -> Finding:
    return explanation(
        "The code reads .grad of a non-leaf tensor, but backward() sets .grad on leaves only.",
        failing(failure, "reads it."),
        "Call retain_grad() on the tensor right after it is computed, or use torch.autograd.grad(loss, tensor).",
        source=failure.source,
        exact=False,
    )
