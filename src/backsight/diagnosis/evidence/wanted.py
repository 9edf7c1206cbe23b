"""Whether a program wants the gradient of a leaf for itself, rather than to have an optimizer use it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from backsight.diagnosis.scene import Scene
from backsight.source.body import body_around, callee, dotted, expressions, functions, statements
from backsight.tape import Leaf

_DERIVATIVE = re.compile(r"grad|jacobian|hessian|laplac|derivative|^[vj]jp$", re.IGNORECASE)
_SHOWS = frozenset({"print", "debug", "info", "log"})


def gradient_is_wanted(scene: Scene, leaf: Leaf) -> str:
    """Say why the gradient of a leaf is most likely an end in itself; empty if nothing speaks for it.

    Physics-informed networks and gradient penalties differentiate with respect to an input, attacks and weights that
    are updated by hand read `.grad`. An input is new in each step, where a forgotten weight stays.
    """
    if not leaf.name:
        return "No variable holds it anymore, so it lives only for this step."
    if any("BackwardBackward" in kind.name for kind in scene.graph.types):
        return "This loss contains gradients (create_graph=True) with respect to such leaves."
    if scene.past is not None and not scene.past.had_leaf(leaf.tensor()):
        return "It is new: the previous audit here saw a different one."
    line = next((line for name in leaf.names for line in _uses_gradient(scene.site[0], name)), None)
    return f"Its gradient is used on line {line}." if line else ""


def _uses_gradient(file: str, name: str) -> Iterator[int]:
    """Yield the lines of a file that read the gradient of the variable `name`, or differentiate with respect to it."""
    module = body_around(file, 0)
    stack: list[ast.AST] = [module.node] if module else []
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call) and callee(node)[1] in _SHOWS:
            continue
        reads = isinstance(node, ast.Attribute) and node.attr == "grad" and dotted(node.value) == name
        if reads or (isinstance(node, ast.Call) and name in _given(node) and _differentiates(file, callee(node)[1])):
            yield int(getattr(node, "lineno", 0))
        stack += ast.iter_child_nodes(node)


def _differentiates(file: str, function: str) -> bool:
    """Whether a function is called after what it does, or is one of the file's that calls `autograd.grad`."""
    if _DERIVATIVE.search(function):
        return True
    bodies = (each for each in functions(file) if getattr(each.node, "name", "") == function)
    calls = (node for body in bodies for s in statements(body.node) for node in expressions(s))
    return any(isinstance(n, ast.Call) and (dotted(n.func) or "").endswith("autograd.grad") for n in calls)


def _given(call: ast.Call) -> set[str | None]:
    """Return the variables that are handed to a call after its first argument, which is what is differentiated."""
    given = [*call.args[1:], *(k.value for k in call.keywords if k.arg in ("inputs", "wrt", "primals", "x"))]
    return {dotted(node) for each in given for node in ast.walk(each)}
