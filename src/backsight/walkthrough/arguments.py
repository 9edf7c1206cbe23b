"""What the inputs of a node are called: the arguments of the forward operation that stand behind its edges."""

from __future__ import annotations

import inspect
from typing import Any

from backsight.tape import forward_class
from backsight.walkthrough.formulas import Formula


def argument_names(node: Any, formula: Formula | None) -> tuple[str, ...]:
    """Return the name of the argument behind each edge of a live node: `("self", "other")`.

    A list of tensors has an edge for each of them: `("tensors[0]", "tensors[1]")`. Where nothing tells the names they
    are `input 0`, `input 1` and so on.
    """
    edges = len(node.next_functions)
    numbered = tuple(f"input {k}" for k in range(edges))
    if forward_class(type(node)) is not None:
        return _of_custom(node, numbered)
    names = formula.arguments if formula is not None else ()
    if formula is not None and names and _is_list(formula, names[0]):
        return (*(f"{names[0]}[{k}]" for k in range(edges - len(names) + 1)), *names[1:])
    return names if len(names) == edges else numbered


def _is_list(formula: Formula, name: str) -> bool:
    return f"Tensor[] {name}" in formula.signature or f"ITensorListRef {name}" in formula.signature


def _of_custom(node: Any, numbered: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parameters of a custom Function's forward behind those edges that need a gradient."""
    forward = inspect.getattr_static(forward_class(type(node)), "forward", None)
    function = getattr(forward, "__func__", None)
    if not inspect.isfunction(function):
        return numbered
    code = function.__code__
    parameters = code.co_varnames[: code.co_argcount]
    needed = node.needs_input_grad
    # With setup_context the forward has no ctx before its own parameters; *args have no names.
    own = parameters[-len(needed) :] if len(parameters) in (len(needed), len(needed) + 1) else ()
    behind = iter([name for name, need in zip(own, needed, strict=False) if need])
    named = ((next(behind, None) if node.next_functions[k][0] is not None else None) for k in range(len(numbered)))
    return tuple(name or number for name, number in zip(named, numbered, strict=True))
