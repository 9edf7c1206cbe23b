"""The norm of a gradient that is kept as factors, without making it.

For one product, `|L.T R|² = sum((L L.T) * (R R.T))`: two matrices of tokens by tokens. Several parts of one weight (a
layer called twice, several micro-batches, an embedding tied to the head) have cross terms, which concatenation and
`cross` account for. In float64, but where the terms are seen not to cancel each other: where they do, the sum is much
smaller than its terms, and float32 would not be enough.

Source: Goodfellow, "Efficient per-example gradient computations" (arXiv 1510.01799), there for the diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from backsight.gradient_release.clipping.factor import Factor, Product, Rows

DOUBLE = 2
"""What a multiplication in float64 costs, in ones in float32."""


def norm(factors: Sequence[Factor]) -> torch.Tensor | None:
    """Return the 2-norm, in float64, of the gradient that `factors` stand for; None if making it is the better way.

    That is where it costs fewer multiplications, and below float32: the ordinary gradient is rounded to its type, which
    the norm of the exact product would not see.
    """
    if not is_exact(factors) or not _is_cheaper(factors):
        return None
    squared = squared_norm(factors)
    # Which of inf and nan a norm that is not finite becomes depends on the order of the sum. Waiting for a GPU to tell
    # is not worth it.
    if not squared.is_cuda and not bool(squared.isfinite()):
        return None
    return squared.clamp_min(0).sqrt()


def squared_norm(factors: Sequence[Factor]) -> torch.Tensor:
    """Return the squared 2-norm of the sum of `factors`, in float64."""
    products = [factor for factor in factors if isinstance(factor, Product)]
    rows = [factor for factor in factors if isinstance(factor, Rows)]
    parts = []
    if products:
        left = torch.cat([product.left for product in products])
        right = torch.cat([product.right for product in products])
        tame = None if rows else _tame(left, right)
        if tame is not None:
            return tame
        left, right = left.double(), right.double()
        parts.append(torch.sum((left @ left.t()).mul_(right @ right.t())))
    if rows:
        index = torch.cat([each.index for each in rows])
        values = torch.cat([each.counted() for each in rows]).double()
        parts.append(_by_row(index, values).square_().sum())
    if products and rows:
        parts.append(2 * cross(left, right, index, values))
    return torch.stack(parts).sum()


def _tame(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor | None:
    """Return the squared norm of a product, computed in its own type, if its terms hardly cancel each other.

    Only on a CPU, where looking at them is free; for a GPU it would mean to wait. Only of rows that are not too long,
    such as those of a vocabulary, whose inner products float32 does not get right enough.
    """
    if left.device.type != "cpu" or max(left.shape[1], right.shape[1]) > LONGEST:
        return None
    terms = (left @ left.t()).mul_(right @ right.t())
    total = terms.sum(dtype=torch.float64)
    return total if float(terms.abs().sum(dtype=torch.float64)) <= TAME * float(total) else None


TAME = 2
"""How much larger than their sum the sizes of the terms may be for float32."""

LONGEST = 4096
"""How long the rows of factors may be for float32. Measured on a GPT of 17 million parameters over 15 steps: norms are
right to 1e-7 with rows of 384 to 1,536 numbers, and to 5e-7 with 8,000."""


def cross(left: torch.Tensor, right: torch.Tensor, index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return the inner product of `left.T @ right` with the gradient whose rows `index` get `values`."""
    return torch.sum(left.index_select(1, index).mul_(right @ values.t()))


def _by_row(index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return `values` summed where `index` is the same; rows that are left over are zero.

    As many rows as there were: how many differ is known on the device only, and asking would wait for it.
    """
    ordered, order = index.sort(stable=True)
    starts = torch.ones_like(ordered)
    starts[1:] = (ordered[1:] != ordered[:-1]).to(starts.dtype)
    summed = torch.zeros_like(values)
    return summed.index_put_((starts.cumsum(0) - 1,), values.index_select(0, order), accumulate=True)


def is_exact(factors: Sequence[Factor]) -> bool:
    """Whether the type of all factors is one in which a gradient is as exact as the norm of it should be."""
    types = {factor.left.dtype if isinstance(factor, Product) else factor.rows.dtype for factor in factors}
    return types <= {torch.float32, torch.float64}


def _is_cheaper(factors: Sequence[Factor]) -> bool:
    """Whether Gram matrices take fewer multiplications than the gradient itself."""
    products = [factor for factor in factors if isinstance(factor, Product)]
    if not products:
        return True
    if any(factor.left.device.type == "mps" for factor in products):  # which has no float64
        return False
    tokens = sum(product.left.shape[0] for product in products)
    rows, columns = products[0].left.shape[1], products[0].right.shape[1]
    embedded = sum(factor.rows.shape[0] for factor in factors if isinstance(factor, Rows))
    gram = tokens * tokens * (rows + columns) + tokens * embedded * columns
    return DOUBLE * gram < tokens * rows * columns
