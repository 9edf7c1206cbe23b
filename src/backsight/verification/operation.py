"""`Operation`: one call that made autograd nodes, with what it was given, so that it can be made again."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten

from backsight.source import Place
from backsight.verification.definition import Definition

Site = tuple[str, int, int | None]
"""File and line, and the column, where Python tells it."""

_PLAIN = (torch.Tensor, int, float, str, torch.dtype)


@dataclass(frozen=True, eq=False)
class Kept:
    """A tensor as an operation got it: a copy of its values, and whether it required a gradient."""

    value: torch.Tensor
    wanted: bool


@dataclass(frozen=True, eq=False)
class Operation:
    """One call of a differentiable function.

    ```python
    operation.call([kept.value for kept in operation.arguments])    # makes the call again
    ```

    `arguments` are the leaves of the positional and keyword arguments, tensors as `Kept`, and `spec` is how they were
    nested; None where each is a positional argument of its own. `custom` is the `torch.autograd.Function`, if it is
    one's `apply`; `definition` tells where that, or an operator of `torch.library`, is written, and is None for
    PyTorch's own. `generators` are states of the random generators among the arguments. `differentiates` says that it
    may call autograd itself, and so needs inputs that require a gradient. `names` are those of the arguments, where the
    function does not tell.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    spec: TreeSpec | None
    site: Site | None = None
    custom: type | None = None
    generators: tuple[tuple[torch.Generator, torch.Tensor], ...] = ()
    definition: Definition | None = None
    differentiates: bool = False
    names: tuple[str, ...] = ()

    def call(self, arguments: list[Any]) -> Any:
        """Call the function with these leaves in place of those recorded."""
        for generator, state in self.generators:
            generator.set_state(state)
        if self.spec is None:
            return self.function(*arguments)
        args, kwargs = tree_unflatten(arguments, self.spec)
        return self.function(*args, **kwargs)

    @property
    def wanted(self) -> tuple[int, ...]:
        """The positions among `arguments` of the tensors that a gradient is wanted for."""
        return tuple(k for k, each in enumerate(self.arguments) if type(each) is Kept and each.wanted)

    def argument(self, position: int) -> str:
        """What an argument is called: `weight`, `tensors[2]`, or `argument 1` where the function does not tell."""
        if self.names:
            return self.names[position]
        path = self.paths()[position]
        head, *inner = path
        named = head if isinstance(head, str) else self._parameter(head)
        return named + "".join(f"[{key!r}]" for key in inner)

    def paths(self) -> list[tuple[Any, ...]]:
        """Where each leaf stands: the number or keyword of its argument, then the keys inside of it."""
        if self.spec is None:
            return [(k,) for k in range(len(self.arguments))]
        args, kwargs = tree_unflatten(list(range(len(self.arguments))), self.spec)
        found: dict[int, tuple[Any, ...]] = {}
        for head, value in [*enumerate(args), *kwargs.items()]:
            _enter(value, (head,), found)
        return [found.get(k, (0,)) for k in range(len(self.arguments))]

    def _parameter(self, number: int) -> str:
        if self.definition is not None:
            return self.definition.parameters(number + 1)[number]
        try:
            positional = [p.name for p in inspect.signature(self.function).parameters.values() if p.kind in (0, 1)]
        except (TypeError, ValueError):  # builtins have no signature
            positional = []
        return positional[number] if number < len(positional) else f"argument {number}"

    @property
    def own(self) -> bool:
        """Whether it is the program's own; PyTorch's are proven by PyTorch's tests."""
        return self.definition is not None or self.differentiates

    @property
    def backward(self) -> str:
        """What its backward is called: `Poly.backward`, or `the backward of mul` for PyTorch's own."""
        return f"{self.name}.backward" if self.custom else f"the backward of {self.name}"

    @property
    def place(self) -> Place | None:
        """The line that called it."""
        return None if self.site is None else called_at(*self.site)


def flattened(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], TreeSpec | None]:
    """Return the leaves of the arguments of a call and how they are nested; None where they are plainly in a row."""
    if not kwargs and all(isinstance(each, _PLAIN) for each in args):
        return list(args), None
    return tree_flatten((args, kwargs))


def tensors_of(result: Any) -> list[torch.Tensor]:
    """Return the tensors in what a call returned, or was given."""
    if isinstance(result, torch.Tensor):
        return [result]
    return [each for each in tree_leaves(result) if isinstance(each, torch.Tensor)]


def called_at(file: str, line: int, column: int | None = None) -> Place:
    """Return the place of a line, with what is called there where the source is at hand."""
    from backsight.source.body import body_around, expression_at, statement_at

    body = body_around(file, line)
    statement = statement_at(body, line, column) if body else None
    return body.place(expression_at(statement, line, column)) if body and statement else Place(file, line, "")


def _enter(value: Any, path: tuple[Any, ...], found: dict[int, tuple[Any, ...]]) -> None:
    """Note where the leaves of one argument stand; arguments nest a few levels, never deeply."""
    if isinstance(value, int):
        found[value] = path
    elif isinstance(value, dict):
        for key, inner in value.items():
            _enter(inner, (*path, key), found)
    elif isinstance(value, (list, tuple)):
        for key, inner in enumerate(value):
            _enter(inner, (*path, key), found)
