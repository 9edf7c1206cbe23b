"""Why the derivative of a backward is wrong: what it computes with changes with the input, and autograd cannot see how.

Forward runs without being recorded. A tensor that is made in it and kept for backward, on ctx or by save_for_backward,
is a constant to autograd: what it owes to the input is lost when backward is differentiated. Inputs and outputs of the
Function are seen; so are tensors that backward computes from them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from backsight.source import Body, Place, cuts
from backsight.source.body import statements
from backsight.tape import forward_class, grad_fn
from backsight.verification.custom import body_of, method, returned
from backsight.verification.directions import drawn, size_of
from backsight.verification.operation import Operation
from backsight.verification.point import Point
from backsight.verification.second_order.pullback import differentiable_of

FAR = 1e-3
"""How far the inputs are moved to see what changes with them, relative to their size."""


@dataclass(frozen=True)
class Lost:
    """What a backward computes with that autograd takes for a constant: `ctx.t`, and where that is.

    `kept` says that forward keeps it; otherwise backward cuts it off, and `why` says how.
    """

    name: str
    place: Place | None
    kept: bool = False
    why: str = ""


def lost_links(point: Point, generator: torch.Generator) -> tuple[Lost, ...]:
    """Return what the backward of a custom Function keeps that changes with the inputs, unseen by autograd."""
    definition = point.operation.definition
    if definition is None:
        return ()
    here = _kept_by(point)
    moved = [x + drawn(x, generator) * (FAR * size_of(x)) for x in point.inputs]
    there = _kept_by(point.at(moved))
    changing = [name for name, value in here.items() if name in there and _differ(value, there[name])]
    return tuple(_kept_at(point.operation, name) for name in changing) or tuple(_cut_in(body_of(definition.backward)))


def _kept_by(point: Point) -> dict[str, Any]:
    """Return the values that a custom node keeps and autograd does not see, by name."""
    outputs = differentiable_of(point)
    node = next((made for each in outputs if (made := grad_fn(each)) is not None), None)
    if node is None or forward_class(type(node)) is None:
        return {}
    kept = {f"ctx.{name}": value for name, value in object.__getattribute__(node, "__dict__").items()}
    kept |= {f"saved_tensors[{k}]": value for k, value in enumerate(node.saved_tensors)}
    return {name: value for name, value in kept.items() if not (_is_tensor(value) and value.requires_grad)}


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _differ(a: Any, b: Any) -> bool:
    """Whether a number, an array or a tensor of numbers is another at another input."""
    if _is_tensor(a) and _is_tensor(b):
        real = a.is_floating_point() or a.is_complex()
        return bool(real and a.shape == b.shape and not torch.equal(a, b))
    if type(a).__module__ == "numpy" and type(a) is type(b):
        return bool((a != b).any())
    return type(a) is type(b) and isinstance(a, (float, complex)) and a != b


def _kept_at(operation: Operation, name: str) -> Lost:
    """Return what is lost under `name`, with the statement that keeps it."""
    forward = operation.definition.forward if operation.definition is not None else None
    setup = method(operation.custom, "setup_context") if operation.custom is not None else None
    for body in filter(None, map(body_of, (forward, setup))):
        for statement in statements(body.node):
            if spelt := _keeps(body, statement, name):
                label = name if name.startswith("ctx.") else f"`{spelt}`"
                return Lost(label, body.place(statement), kept=True)
    return Lost(name, None, kept=True)


def _keeps(body: Body, statement: ast.stmt, name: str) -> str:
    """Return what a statement keeps under `name`: its source; "" if it keeps something else."""
    if name.startswith("ctx."):
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        named = [each for each in targets if isinstance(each, ast.Attribute) and f"ctx.{each.attr}" == name]
        return body.text(statement.value) if named and isinstance(statement, ast.Assign) else ""
    number = int(name.rpartition("[")[2].rstrip("]"))
    call = statement.value if isinstance(statement, ast.Expr) else None
    saves = (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "save_for_backward"
    )
    if saves and isinstance(call, ast.Call) and number < len(call.args):
        return body.text(call.args[number])
    return ""


def _cut_in(body: Body | None) -> Iterator[Lost]:
    """Yield where a backward cuts what it returns off from autograd: `.detach()`, `.data`, no_grad."""
    for value in returned(body) if body is not None else ():
        if body is not None:
            for cut in cuts(body, body.text(value), value.lineno):
                yield Lost(f"`{cut.expression}`", cut.place, why=f"{cut.why[:1].upper()}{cut.why[1:]}.")
