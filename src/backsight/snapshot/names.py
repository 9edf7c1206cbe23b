"""What the program calls a tensor, whoever holds it."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from backsight.naming import Name, search
from backsight.tape import capture


def name(tensor: torch.Tensor, *, deep: bool = False) -> Name:
    """Return what the program calls `tensor`.

    ```python
    >>> backsight.name(model[0].weight).text
    'model.0.weight (local of main)'
    ```

    Args:
        tensor: any tensor, with or without a gradient.
        deep: also look into libraries' modules; slower, as the whole heap is searched.

    Returns:
        The best `Name`. A tensor that no Python variable reaches gets one with `exact=False` that says who keeps it.

    Raises:
        TypeError: if `tensor` is not a tensor.
    """
    return names([tensor], deep=deep)[0]


def names(tensors: Iterable[torch.Tensor], *, deep: bool = False) -> tuple[Name, ...]:
    """Return what the program calls each of `tensors`, all found in one pass. See `name`."""
    wanted = list(tensors)
    for k, tensor in enumerate(wanted):
        if not issubclass(type(tensor), torch.Tensor):
            raise TypeError(f"names() expects tensors; number {k} is a {type(tensor).__name__}.")
    found = search(wanted, deep=deep).names
    if all(found):
        return tuple(candidates[0] for candidates in found)
    return tuple(
        candidates[0] if candidates else _held_by_autograd(tensor)
        for tensor, candidates in zip(wanted, found, strict=True)
    )


def _held_by_autograd(tensor: torch.Tensor) -> Name:
    """Say which graph keeps a tensor that no Python variable holds."""
    roots = [(t, n) for t, n in search((), collect=(torch.Tensor,)).found if t.requires_grad and not t.is_leaf]
    roots = roots[:_MOST_ROOTS]
    for root, of in roots:
        try:
            captured = capture(root)
        except NothingToCapture:
            continue
        for i, saved in captured.saved.items():
            field = next((s.name for s in saved if s.tensor() is tensor), None)
            if field:
                holder = f"{captured.nodes[i].name} as `{field}`"
                return _unnamed(f"held by no variable: saved by {holder}, in the graph of {of.path}")
        if any(leaf.tensor() is tensor for leaf in captured.leaves):
            return _unnamed(f"held by no variable: a leaf in the graph of {of.path}")
    return _unnamed("held by no variable that can be reached")


_MOST_ROOTS = 64
"""How many graphs are looked through for a tensor that only autograd holds."""


def _unnamed(text: str) -> Name:
    return Name(text, path="", scope="", kind="unnamed", exact=False)
