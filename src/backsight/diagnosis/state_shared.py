"""BS148: the state that an optimizer of the program's keeps is the memory of a gradient."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import named
from backsight.diagnosis.wording import if_known, warning
from backsight.source import Body, Place
from backsight.source.body import dotted, functions, statements
from backsight.tape.saved import is_readable
from backsight.tracing.steps import parameters

CODES = ("BS148",)

_MOST = 4
"""Parameters of an optimizer that are looked at: what one has, the others have."""


@dataclass(frozen=True)
class SharedState:
    """An entry of a parameter's state that has the memory of its gradient."""

    optimizer: weakref.ref[torch.optim.Optimizer]
    key: object
    pointer: int


def shared_state(optimizer: torch.optim.Optimizer) -> Iterator[SharedState]:
    """Yield the entries of the state that have the memory of a gradient now."""
    held: Any = object.__getattribute__(optimizer, "__dict__").get("state", {})
    ref = weakref.ref(optimizer)
    for parameter in parameters(optimizer)[:_MOST]:
        gradient, entries = parameter.grad, held.get(parameter) if parameter in held else None
        if gradient is None or type(entries) is not dict or not _is_plain(gradient):
            continue
        for key, value in entries.items():
            if _is_plain(value) and value.data_ptr() == gradient.data_ptr() and value.shape == gradient.shape:
                yield SharedState(ref, key, gradient.data_ptr())


def _is_plain(value: object) -> bool:
    return type(value) is torch.Tensor and is_readable(value) and value.numel() > 0 and value.layout == torch.strided


def told_shared(shared: SharedState, optimizer: torch.optim.Optimizer, since: int) -> Finding:
    """Return the finding of such an entry, which the program's zero_grad() and backward() change."""
    name = named(optimizer, type(optimizer).__name__)
    place, text = _stored(type(optimizer), shared.key) or (None, "")
    key = f"{shared.key!r}" if isinstance(shared.key, str) else "an entry"
    return warning(
        "BS148",
        f"The state {key} of {name} is the gradient itself, not a copy: zero_grad() and backward() change it.",
        (
            if_known(place, "stores the gradient's own memory."),
            "It is lost or doubled in each step, so it accumulates nothing.",
        ),
        f"Store a copy: {place.text[: place.text.rindex(text)]}{text}.clone()."
        if place is not None
        else "Store a copy: p.grad.clone().",
        place,
        since=since,
    )


def _stored(kind: type, key: object) -> tuple[Place, str] | None:
    """Return the one statement that stores a gradient, or a name of it, under this key, and how it writes that."""
    code: Any = next((vars(c)["step"] for c in kind.__mro__ if "step" in vars(c)), None)
    while hasattr(code, "__wrapped__"):
        code = code.__wrapped__
    file = getattr(getattr(code, "__code__", None), "co_filename", "")
    found = [each for body in (functions(file) if file else ()) for each in _assigned(body, key)]
    return found[0] if len(found) == 1 else None


def _assigned(body: Body, key: object) -> Iterator[tuple[Place, str]]:
    grads = {
        name
        for each in statements(body.node)
        if isinstance(each, ast.Assign) and _is_gradient(each.value, frozenset())
        for goal in each.targets
        if (name := dotted(goal)) is not None
    }
    for each in statements(body.node):
        if not isinstance(each, ast.Assign) or not _is_gradient(each.value, grads):
            continue
        for goal in each.targets:
            if isinstance(goal, ast.Subscript) and isinstance(goal.slice, ast.Constant) and goal.slice.value == key:
                yield body.place(each), body.text(each.value)


def _is_gradient(value: ast.expr, names: frozenset[str] | set[str]) -> bool:
    """Whether an expression is a gradient, or has its memory: `p.grad`, `p.grad.data`, `grad.detach()`, `grad`."""
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr="detach" | "view_as" | "view")):
            return _is_gradient(inner, names)
        case ast.Attribute(value=inner, attr="data"):
            return _is_gradient(inner, names)
        case ast.Attribute(attr="grad"):
            return True
    return dotted(value) in names
