"""What the program calls a tensor, whoever holds it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from backsight.naming import Name, search
from backsight.naming.plain import class_qualname
from backsight.snapshot.orphans import described


def name(tensor: torch.Tensor, *, deep: bool = False) -> Name:
    """Return what the program calls `tensor`.

    ```python
    backsight.name(model[0].weight).text    # 'model.0.weight (local of main)'
    ```

    A tensor that no variable holds gets a name with `exact=False`, whose text says what keeps it: a node of the graph,
    or nothing but the call itself. A leaf whose variable was overwritten is named after it, with the `distance`, in
    operations, to the result that has its name now.

    Args:
        tensor: any tensor, with or without a gradient.
        deep: also look into the modules of installed libraries, which may take a second.

    Raises:
        TypeError: if `tensor` is not a tensor.
    """
    if not issubclass(type(tensor), torch.Tensor):
        raise TypeError(f"name() takes a tensor, not {_kind(tensor)}.{_hint(tensor)}")
    return _named([tensor], deep)[0]


def names(tensors: Iterable[torch.Tensor], *, deep: bool = False) -> tuple[Name, ...]:
    """Return what the program calls each of `tensors`, in their order, all found in one pass. See `name`.

    ```python
    [n.path for n in backsight.names(model.parameters())]    # ['model.0.weight', 'model.0.bias']
    ```

    Args:
        tensors: any tensors; the container that they come in counts as a name, if a variable holds it.
        deep: also look into the modules of installed libraries, which may take a second.

    Raises:
        TypeError: if `tensors` is not an iterable of tensors.
    """
    return _named(_checked(tensors), deep)


def _named(tensors: list[torch.Tensor], deep: bool) -> tuple[Name, ...]:
    found = search(tensors, deep=deep)
    orphans = [t for t, names in zip(tensors, found.names, strict=True) if not names]
    told = iter(described(orphans, deep=deep, complete=found.complete))
    return tuple(names[0] if names else next(told) for names in found.names)


def _checked(tensors: Any) -> list[torch.Tensor]:
    if issubclass(type(tensors), torch.Tensor):
        raise TypeError("names() takes several tensors, in a list for instance; name(tensor) takes one.")
    if issubclass(type(tensors), torch.nn.Module) or not hasattr(type(tensors), "__iter__"):
        raise TypeError(f"names() takes several tensors, not {_kind(tensors)}.{_hint(tensors)}")
    several = list(tensors)
    for at, tensor in enumerate(several):
        if not issubclass(type(tensor), torch.Tensor):
            raise TypeError(f"names() takes tensors, and number {at} is {_kind(tensor)}.")
    return several


def _kind(value: object) -> str:
    return "None" if value is None else f"an object of type {class_qualname(type(value))}"


def _hint(value: object) -> str:
    """Say what to call instead, where that is clear."""
    if issubclass(type(value), torch.nn.Module):
        return " For its parameters, call names(model.parameters())."
    if issubclass(type(value), (list, tuple, dict)):
        return " For several tensors, call names([...])."
    return ""
