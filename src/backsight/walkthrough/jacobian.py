"""The local Jacobian of a node, found by calling the node with one-hot gradients.

A row of the Jacobian is what the node makes of a gradient that is one at one output element: J = (d output / d input),
and the backward pass is the product of the gradient with it. No forward pass is needed, so this works after the fact,
and for custom Functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from backsight.walkthrough.gradient import Gradient

ROWS = 64
"""A Jacobian is made in full if it has at most this many rows, each of which costs a call of the node."""

ENTRIES = 1 << 16
"""And if it has at most this many entries."""

LOOKED = 8
"""Rows looked at of a larger one."""

Structure = Literal[
    "zero", "identity", "scaled identity", "diagonal", "permutation", "one 1 per row", "sparse", "dense", "unknown"
]

Call = Callable[[Sequence[torch.Tensor | None]], tuple[torch.Tensor | None, ...]]


@dataclass(frozen=True)
class Jacobian:
    """d output / d input of one node, for one of its inputs: a row an output element, a column an input element.

    ```python
    j = step.jacobian[0]
    j.matrix, j.structure       # (tensor of shape 8×8, 'diagonal')
    g.reshape(-1) @ j.matrix    # what leaves the node
    ```

    A small one has its `matrix`; of a large one `looked` rows were looked at, and `structure` says what they show.
    `nonzero` counts the entries that are not zero in the rows looked at. `input` is the number of the node's input, and
    `argument` its name in the signature of the operation.
    """

    input: int
    argument: str
    rows: int
    columns: int
    structure: Structure
    looked: int
    nonzero: int
    matrix: torch.Tensor | None = field(default=None, repr=False, compare=False)

    @property
    def exact(self) -> bool:
        """Whether every row was looked at."""
        return self.looked == self.rows

    def __str__(self) -> str:
        seen = "" if self.exact else f" ({self.looked} of {self.rows:,} rows checked)"
        return f"{self.rows:,}×{self.columns:,} {self.structure}{seen}"


def jacobians(
    call: Call,
    arrived: Sequence[Gradient | None],
    sent: Sequence[Gradient | None],
    names: Sequence[str],
    like: torch.device,
) -> tuple[Jacobian, ...]:
    """Return the Jacobian for each input that a gradient was sent to.

    Args:
        call: what the node makes of its gradients.
        arrived: what came in this pass; outputs to which nothing came have no rows.
        sent: what left in this pass.
        names: the argument behind each input.
        like: the device of the gradients.
    """
    rows = sum(g.elements for g in arrived if g is not None)
    widest = max((g.elements for g in sent if g is not None), default=0)
    full = rows <= ROWS and rows * widest <= ENTRIES
    at = list(range(rows)) if full else _spread(rows)
    made = [call(_one_hot(arrived, row, like)) for row in at]
    return tuple(
        _jacobian(k, names[k], rows, g.elements, at, [results[k] for results in made])
        for k, g in enumerate(sent)
        if g is not None
    )


def _jacobian(
    k: int, name: str, rows: int, columns: int, at: Sequence[int], made: Sequence[torch.Tensor | None]
) -> Jacobian:
    lines = [torch.zeros(columns) if line is None else _dense(line).reshape(-1) for line in made]
    matrix = torch.stack([line.to(lines[-1].dtype) for line in lines]) if lines else torch.zeros(0, columns)
    nonzero = int((matrix != 0).sum())
    full = len(at) == rows
    return Jacobian(k, name, rows, columns, _structure(matrix, at, rows), len(at), nonzero, matrix if full else None)


def _structure(matrix: torch.Tensor, at: Sequence[int], rows: int) -> Structure:
    """Say what the rows numbered `at`, of so many, look like."""
    if matrix.numel() == 0:
        return "unknown"
    entries = matrix != 0
    if not entries.any():
        return "zero"
    on_diagonal = max(at) < matrix.shape[1] and int(entries[range(len(at)), list(at)].sum()) == int(entries.sum())
    if on_diagonal:
        diagonal = matrix[range(len(at)), list(at)]
        if bool((diagonal == diagonal[0]).all()):
            return "identity" if diagonal[0] == 1 else "scaled identity"
        return "diagonal"
    if bool((entries.sum(1) == 1).all() and (matrix[entries] == 1).all()) and matrix.shape[1] > 1:
        return "permutation" if rows == matrix.shape[1] and bool((entries.sum(0) <= 1).all()) else "one 1 per row"
    return "dense" if int(entries.sum()) > matrix.numel() // 2 else "sparse"


def _one_hot(arrived: Sequence[Gradient | None], row: int, device: torch.device) -> list[torch.Tensor | None]:
    """Return gradients that are one at element `row`, counted over all that arrived, and zero elsewhere."""
    out: list[torch.Tensor | None] = []
    for g in arrived:
        if g is None:
            out.append(None)
            continue
        flat = torch.zeros(g.elements, dtype=g.dtype, device=device)
        if 0 <= row < g.elements:
            flat[row] = 1
        row -= g.elements
        out.append(flat.reshape(g.shape))
    return out


def _spread(rows: int) -> list[int]:
    """Return a few rows spread over all of them; the odd stride keeps off the period of most shapes."""
    return sorted({int(math.modf(0.618033988749895 * k)[0] * rows) for k in range(1, LOOKED + 1)})


def _dense(line: torch.Tensor) -> torch.Tensor:
    return line if line.layout == torch.strided else line.to_dense()
