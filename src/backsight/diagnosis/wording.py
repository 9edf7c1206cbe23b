"""How explanations say things: places, counts, shapes and lists in one style."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from backsight.findings.located import Statement, located
from backsight.tape.rows import dimensions, dtype_name
from backsight.text import counted as counted
from backsight.text import listed as in_words


def shown(place: Statement, says: str) -> str:
    """Return a statement as evidence: where and what it is, and below it what it does.

    >>> print(shown(Place("train.py", 41, "loss.backward()"), "frees the graph."))
    train.py:41  loss.backward()
        frees the graph.
    """
    return located(place, says)


def were(number: int, nouns: str) -> str:
    """`1 operation of this graph was`, `2 operations of this graph were`; `nouns` is the plural."""
    first, _, rest = nouns.partition(" ")
    return " ".join(filter(None, [counted(number, first.removesuffix("s")), rest, "was" if number == 1 else "were"]))


def listed(items: Sequence[str], limit: int = 6) -> str:
    """`a, b and c`; what goes beyond `limit` is counted."""
    return in_words(items, limit)


def shaped(shape: Sequence[int] | None) -> str:
    """`3×4`; `scalar` for no dimensions."""
    return dimensions(shape or ())


def described(tensor: torch.Tensor) -> str:
    """`float32 tensor of shape 3×4`."""
    kind = dtype_name(tensor.dtype)
    return f"{kind} tensor of shape {shaped(tensor.shape)}" if tensor.dim() else f"{kind} scalar"
