"""Operations of PyTorch whose backward is not the derivative of their forward, and is documented to be so."""

from __future__ import annotations

import torch

from backsight.verification.directions import drawn
from backsight.verification.operation import Operation
from backsight.verification.point import Point

_REPEATED = "values written twice to one place have no gradient, and a random choice of indices may repeat some"

DOCUMENTED = {
    "as_strided_scatter": "entries of its output may share a place in memory: which of them wins has no gradient",
    "ctc_loss": "its gradient is that of the logits before log_softmax: it assumes that log_probs is normalized",
    "max_unpool1d": _REPEATED,
    "max_unpool2d": _REPEATED,
    "max_unpool3d": _REPEATED,
    "normal": "a sample is detached from its mean and standard deviation; torch.distributions has rsample()",
}
"""By name: why a difference is no mistake."""

SYMMETRIC = frozenset(
    {"cholesky", "linalg_cholesky", "linalg_cholesky_ex", "linalg_eigh", "linalg_eigvalsh", "linalg_matrix_sqrth"}
)
"""Operations on symmetric (or Hermitian) matrices, whose backward knows nothing of any other direction."""


def direction_of(point: Point, number: int, generator: torch.Generator) -> torch.Tensor:
    """Return a random direction in which an input of an operation may move."""
    direction = drawn(point.inputs[number], generator)
    documented = number == 0 and point.operation.name in SYMMETRIC and point.operation.definition is None
    if documented or point.reads_one_triangle(number):
        direction = (direction + direction.mH) / 2
    return direction


def documented(operation: Operation) -> str | None:
    """Return why a wrong gradient of this operation is none; None for all others, and for every custom Function."""
    return None if operation.definition else DOCUMENTED.get(operation.name.rpartition(".")[2])
