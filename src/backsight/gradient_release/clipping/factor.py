"""A weight's gradient as the product that it is, kept as its factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from backsight.gradient_release.errors import ReleaseError


@dataclass(frozen=True)
class Product:
    """The gradient `left.T @ right` of one call of a linear layer.

    `left` is (tokens, rows of the weight), `right` is (tokens, columns of the weight): the gradient of the output and
    the input, or the other way round for a layer whose weight is (inputs, outputs).
    """

    left: torch.Tensor
    right: torch.Tensor
    versions: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "versions", (self.left._version, self.right._version))

    @property
    def nbytes(self) -> int:
        """What keeping the factors costs."""
        return (self.left.numel() + self.right.numel()) * self.left.element_size()

    def dense(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the gradient, by the same kernel as the ordinary backward pass."""
        self._check()
        return self.left.t().mm(self.right).to(weight.dtype)

    def add_to(self, gradient: torch.Tensor) -> None:
        """Add the gradient to another, without a temporary where the types allow."""
        self._check()
        if gradient.dtype == self.left.dtype:
            gradient.addmm_(self.left.t(), self.right)
        else:
            gradient.add_(self.dense(gradient))

    def times(self, number: torch.Tensor) -> Product:
        """Return the factors of `number` times the gradient."""
        self._check()
        return Product(self.left * number.to(self.left.device), self.right)

    def _check(self) -> None:
        if (self.left._version, self.right._version) != self.versions:
            raise _changed("input or output gradient of a linear layer")


@dataclass(frozen=True)
class Rows:
    """The gradient of one call of an embedding: `rows[i]` is added to row `index[i]` of the weight.

    `index` is (tokens,), `rows` is (tokens, columns of the weight). Row `padding` gets nothing.
    """

    index: torch.Tensor
    rows: torch.Tensor
    padding: int | None
    version: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "version", self.rows._version)

    @property
    def nbytes(self) -> int:
        """What keeping the factors costs."""
        return self.rows.numel() * self.rows.element_size() + self.index.numel() * self.index.element_size()

    def dense(self, weight: torch.Tensor) -> torch.Tensor:
        """Return the gradient, by the same kernel as the ordinary backward pass."""
        self._check()
        return embedding_gradient(self.rows, self.index, weight, self.padding)

    def add_to(self, gradient: torch.Tensor) -> None:
        """Add the gradient to another."""
        self._check()
        gradient.index_put_((self.index,), self.counted().to(gradient.dtype), accumulate=True)

    def times(self, number: torch.Tensor) -> Rows:
        """Return the factors of `number` times the gradient."""
        self._check()
        return Rows(self.index, self.rows * number.to(self.rows.device), self.padding)

    def counted(self) -> torch.Tensor:
        """Return the rows, with zero for the padding."""
        if self.padding is None:
            return self.rows
        return self.rows.masked_fill((self.index == self.padding).unsqueeze(1), 0)

    def _check(self) -> None:
        if self.rows._version != self.version:
            raise _changed("output gradient of an embedding")


Factor = Product | Rows


def embedding_gradient(
    rows: torch.Tensor, index: torch.Tensor, weight: torch.Tensor, padding: int | None
) -> torch.Tensor:
    """Return the gradient of an embedding's weight, as PyTorch's own backward does."""
    return torch.ops.aten.embedding_dense_backward(  # type: ignore[no-any-return]  # torch.ops has no types
        rows, index, weight.shape[0], -1 if padding is None else padding, False
    )


def dense_sum(factors: Sequence[Factor], weight: torch.Tensor) -> torch.Tensor:
    """Return the whole gradient of `weight`, in the order in which its parts came; zeros if there are none."""
    if not factors:
        return torch.zeros_like(weight)
    gradient = factors[0].dense(weight)
    for factor in factors[1:]:
        factor.add_to(gradient)
    return gradient


def _changed(what: str) -> ReleaseError:
    return ReleaseError(
        f"The {what} was modified in place after backward(), while its weight's gradient was still kept as factors. "
        "Modify it after optimizer.step(), or use release.clip(max_norm, method='two-pass')."
    )
