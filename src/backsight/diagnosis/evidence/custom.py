"""Custom `torch.autograd.Function`s behind a failure: their class, what forward was given, what backward returns."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass
from typing import Any

import torch

from backsight.naming.plain import class_name
from backsight.source import Body, Place, function_at
from backsight.source.body import statements
from backsight.story.failure import Failure, method
from backsight.story.memory import maker_of, needs_gradient
from backsight.tape import forward_class, input_metadata, no_torch_function
from backsight.tape.capture import root_edges
from backsight.tape.walk import walk

_NEEDED: Any = torch.autograd.Function.needs_input_grad


@dataclass(frozen=True, eq=False)
class Applied:
    """One application of a custom Function, by its node: the `ctx` of that call."""

    node: Any
    cls: type

    @property
    def name(self) -> str:
        return class_name(self.cls)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of what `apply` was given, as forward calls them; `x[1]` for the second of `*x`."""
        names, given = list(self.parameters), len(self.needed)
        code = getattr(method(self.cls, "forward"), "__code__", None)
        if code is not None and code.co_flags & inspect.CO_VARARGS:
            starred = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
            names += [f"{starred}[{k}]" for k in range(given - len(names))]
        names += [f"argument {k + 1}" for k in range(len(names), given)]
        return tuple(names[:given])

    @property
    def parameters(self) -> tuple[str, ...]:
        """The parameters of forward, without `ctx`."""
        code = getattr(method(self.cls, "forward"), "__code__", None)
        names = code.co_varnames[: code.co_argcount] if code is not None else ()
        return tuple(names if self.has_setup else names[1:])

    @property
    def needed(self) -> tuple[bool, ...]:
        """For each argument of `apply`, whether it needs a gradient."""
        # Past an attribute of the same name that the Function may have set on its `ctx`.
        return tuple(_NEEDED.__get__(self.node))

    @property
    def has_setup(self) -> bool:
        """Whether forward has no `ctx`, because the class has a `setup_context`."""
        return method(self.cls, "setup_context") is not method(torch.autograd.Function, "setup_context")

    def argument_at(self, index: int) -> str:
        """The name of the argument that the engine counts as `index`: it counts tensors alone.

        Which arguments were tensors is not kept, but only those that need a gradient have an edge, in the same order.
        """
        edges = [k for k, (node, _) in enumerate(self.node.next_functions) if node is not None]
        wanting = [k for k, needs in enumerate(self.needed) if needs]
        if index not in edges or len(edges) != len(wanting):
            return ""
        return self.arguments[wanting[edges.index(index)]]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the arguments that need a gradient, by name."""
        found: dict[str, tuple[int, ...]] = {}
        for index, (node, output) in enumerate(self.node.next_functions):
            name = self.argument_at(index) if node is not None else ""
            given = input_metadata(node)[output : output + 1] if name else ()
            found.update((name, tuple(each.shape)) for each in given)
        return found

    @property
    def outputs(self) -> list[tuple[int, ...]]:
        """The shapes of what forward returned, which those of backward's arguments are."""
        return [tuple(each.shape) for each in input_metadata(self.node)]

    @property
    def backward(self) -> str:
        """The name of the method that computes the gradients."""
        own = method(self.cls, "backward")
        return "vjp" if own is method(torch.autograd.Function, "backward") else "backward"


def applied(failure: Failure, node_name: str) -> Applied | None:
    """Return the custom Function in the graph whose node is called `node_name`, the nearest to the root."""
    return next((each for each in every_applied(failure) if type(each.node).__name__ == node_name), None)


def every_applied(failure: Failure) -> list[Applied]:
    """Return the applications of custom Functions in the graph, those nearest to the root first."""
    with no_torch_function():
        if not any(needs_gradient(root) for root in failure.roots):
            return []
        nodes = walk([node for node, _ in root_edges(failure.roots)]).nodes
    classes = ((node, forward_class(type(node))) for node in nodes)
    return [Applied(node, cls) for node, cls in classes if cls is not None]


def class_behind(tensor: object) -> type | None:
    """Return the custom Function that made a tensor; None if none did."""
    return forward_class(type(maker_of(tensor)))


def body_of(cls: type | None, name: str) -> Body | None:
    """Return the source of a method; None where it cannot be read."""
    function = method(cls, name) if cls is not None else None
    return function_at(function.__code__) if function else None


def definition(body: Body) -> Place:
    """Where a function is defined: `def forward(ctx, x):`."""
    node = body.node
    return body.place(node) if isinstance(node, ast.stmt) else Place(body.file, 1, "")


def returned(body: Body) -> list[ast.Return]:
    """The statements with which a function returns a value."""
    return [each for each in statements(body.node) if isinstance(each, ast.Return) and each.value is not None]


def returns(cls: type | None, name: str) -> list[Place]:
    """The places of the statements with which a method returns a value."""
    body = body_of(cls, name)
    return [body.place(each) for each in returned(body)] if body else []


def elements(statement: ast.Return) -> list[ast.expr]:
    """The values that a statement returns: the elements of a tuple that is written out, or put together of such, else
    the one value."""
    value = statement.value
    parts = concatenated(value) if value is not None else []
    if value is None or not any(isinstance(each, ast.Starred) for each in parts):
        return parts
    return [value]


def concatenated(value: ast.expr) -> list[ast.expr]:
    """The elements of a tuple, also of `(None,) * 2 + (x, y) + tuple(rest)`, what is no tuple written out unpacked; the
    expression itself if it is no such."""
    match value:
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            return [*elts]
        case ast.BinOp(left=ast.Tuple(elts=elts), op=ast.Mult(), right=ast.Constant(value=int(times))):
            return [*elts] * times
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            both = [concatenated(left), concatenated(right)]
            if any(each != [one] for each, one in zip(both, (left, right), strict=True)):
                return [
                    part
                    for parts, one in zip(both, (left, right), strict=True)
                    for part in ([ast.Starred(one)] if parts == [one] else parts)
                ]
    return [value]
