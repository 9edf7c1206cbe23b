"""Which calls run backward, and on what."""

from __future__ import annotations

import ast
import re

from backsight.source.body import Body, Place, callee, calls_in, dotted, keyword, statement_at, statements
from backsight.source.imports import is_gradient_call, meaning

# Objects that run backward on a tensor handed to them: Accelerate, Lightning and Fabric, DeepSpeed, Colossal-AI.
_ENGINES = re.compile(r"^self$|accelerat|fabric|engine|strateg|trainer|booster|plugin|model$|optimizer$", re.IGNORECASE)


def receiver_of_backward(body: Body, line: int, column: int | None = None) -> str | None:
    """The source of the expression that backward is run on by the statements at `line`; None where none is run.

    Of several statements on the line the one at `column` is asked first; without a column all have to agree.

    >>> receiver_of_backward(body, 14)      # scaler.scale(loss / 4).backward()
    'loss / 4'
    """
    found = scaled_receiver(body, line, column)
    return None if found is None else found[0]


def scaled_receiver(body: Body, line: int, column: int | None = None) -> tuple[str, bool] | None:
    """As `receiver_of_backward`, and whether a gradient scaler multiplies it first: `("loss / 4", True)` above."""
    roots = [
        (body.text(root), _scales(call))
        for each in _statements_at(body, line, column)
        if (found := _first_call(each))
        for call, root in (found,)
    ]
    return roots[0] if roots and (column is not None or len(set(roots)) == 1) else None


def backward_calls(body: Body | None) -> tuple[Place, ...]:
    """The statements of the function that run `.backward()` or `autograd.grad`, in source order."""
    return tuple(place for _, place in backward_roots(body))


def backward_roots(body: Body | None) -> tuple[tuple[str, Place], ...]:
    """The expressions that the function runs backward on, each with the statement, in source order; none without a
    body."""
    every = ((each, _first_call(each)) for each in statements(body))
    return tuple((body.text(found[1]), body.place(each)) for each, found in every if body and found)


def _first_call(statement: ast.stmt) -> tuple[ast.Call, ast.expr] | None:
    """The first call that runs backward, and on what."""
    return next(((call, root) for call in calls_in(statement) if (root := _root_of_backward(call))), None)


def _scales(call: ast.Call) -> bool:
    """Whether what a call runs backward on comes out of a gradient scaler."""
    receiver, _ = callee(call)
    return receiver is not None and _unscaled(receiver) is not receiver


def _root_of_backward(call: ast.Call) -> ast.expr | None:
    """The expression that `call` runs backward on; None when it is another kind of call.

    Known are `loss.backward()`, `torch.autograd.backward(loss)`, `autograd.grad(loss, ...)`, and objects that take the
    tensor as an argument: `accelerator.backward(loss)`, `self.manual_backward(loss)`, `engine.backward(loss)`.
    """
    receiver, name = callee(call)
    owner = dotted(receiver) if receiver is not None else ""
    last = (owner or "").split(".")[-1]
    argument = _single(call.args[0]) if call.args else _single(keyword(call, "tensors", "outputs", "tensor", "loss"))
    if name == "manual_backward" or is_gradient_call(call) or meaning(call.func) == "torch.autograd.backward":
        return argument
    if name != "backward":
        return None
    if argument is not None and (receiver is None or last == "Tensor" or _ENGINES.search(last)):
        return argument
    return None if receiver is None else _unscaled(receiver)


def _statements_at(body: Body, line: int, column: int | None = None) -> list[ast.stmt]:
    """The innermost statement at `line`, and its equals on the same line: `loss = f(x); loss.backward()`."""
    innermost = statement_at(body, line, column)
    if innermost is None:
        return []
    on_line = [each for each in statements(body.node) if each.lineno == each.end_lineno == line]
    return [innermost, *(each for each in on_line if each is not innermost)]


def _unscaled(receiver: ast.expr) -> ast.expr:
    """`loss` in `scaler.scale(loss)`."""
    if isinstance(receiver, ast.Call) and len(receiver.args) == 1:
        scaler, name = callee(receiver)
        if name == "scale" and scaler is not None and "scal" in (dotted(scaler) or "").lower():
            return receiver.args[0]
    return receiver


def _single(node: ast.expr | None) -> ast.expr | None:
    """The only element of a list or tuple of one, else `node`."""
    if isinstance(node, ast.List | ast.Tuple) and len(node.elts) == 1:
        return node.elts[0]
    return node
