"""What a live node is the backward of: its name, its inputs, and where it is written."""

from __future__ import annotations

from typing import Any

from backsight.tape import forward_class
from backsight.tape.ops import op_name
from backsight.verification._torch import operator_name
from backsight.verification.definition import Definition
from backsight.verification.live._torch import library_operator


def definition_of(cls: type) -> Definition:
    """Return where the operation behind a custom node is written: a Function, or an operator of `torch.library`."""
    operator = library_operator(cls)
    found = None if operator is None else Definition.of_operator(operator)
    return found or Definition.of_function(cls)


def name_of(node: str, cls: type | None) -> str:
    """Return `Mul` for `MulBackward0`, and `mylib::sin` for an operator of a library."""
    operator = None if cls is None else library_operator(cls)
    return op_name(node) if operator is None else str(operator_name(operator))


def inputs_of(live: Any) -> tuple[str, ...]:
    """Return what stands behind each of a node's edges: an argument of its forward, or `input 0`."""
    edges = [producer is not None for producer, _ in live.next_functions]
    numbered = tuple(f"input {k}" for k in range(len(edges)))
    cls = forward_class(type(live))
    if cls is None:
        return numbered
    needed = live.needs_input_grad
    names = definition_of(cls).parameters(len(needed))
    behind = iter([name for name, need in zip(names, needed, strict=False) if need])
    return tuple(next(behind, number) if edge else number for edge, number in zip(edges, numbered, strict=True))
