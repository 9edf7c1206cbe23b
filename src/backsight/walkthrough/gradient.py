"""`Gradient`: what a walk keeps of a gradient on its way."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from backsight.tape.rows import dimensions, dtype_name


@dataclass(frozen=True)
class Gradient:
    """One gradient on its way: its shape, its norm, and, where it is small enough to keep, the tensor itself.

    ```python
    step.grad_in[0].norm, step.grad_in[0].value
    ```

    `parts` counts the gradients that met and were summed here. `summed_from` is the shape that the node returned, where
    that was not the shape of its input: the engine sums over the copies that broadcasting had made. `cast_from` is the
    dtype that it returned, where the engine cast it. `value` is None for a tensor of more elements than the walk keeps.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    norm: float
    finite: bool
    parts: int = 1
    summed_from: tuple[int, ...] | None = None
    cast_from: torch.dtype | None = None
    value: torch.Tensor | None = field(default=None, repr=False, compare=False)

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{dimensions(self.shape)} {dtype_name(self.dtype)}, norm {number(self.norm)}"


def gradient_of(
    tensor: torch.Tensor | None, keep: int | None, *, made: torch.Tensor | None = None, parts: int = 1
) -> Gradient | None:
    """Describe a gradient, and keep it if it has at most `keep` elements.

    made: what the node returned, if `tensor` is what the engine made of it.
    """
    if tensor is None:
        return None
    norm = norm_of(tensor)
    return Gradient(
        shape=_shape(tensor),
        dtype=tensor.dtype,
        norm=norm,
        finite=math.isfinite(norm) or tensor.is_meta,
        parts=parts,
        summed_from=_shape(made) if made is not None and _shape(made) != _shape(tensor) else None,
        cast_from=made.dtype if made is not None and made.dtype != tensor.dtype else None,
        value=tensor if keep is None or tensor.numel() <= keep else None,
    )


def norm_of(tensor: torch.Tensor) -> float:
    """Return the Euclidean norm; not finite if and only if an element is not, or the sum of squares is too large.

    Norms are summed in double precision, so that neither half precision nor 1e30 overflows.
    """
    with torch.no_grad():
        values = tensor.detach()
        if values.is_nested:
            values = values.values()
        if values.layout != torch.strided:
            values = values.to_sparse().coalesce().values()
        if values.is_meta:
            return math.nan
        wide = torch.complex128 if values.is_complex() else torch.float64
        return float(torch.linalg.vector_norm(values, dtype=wide))


def number(value: float) -> str:
    """Return a number in at most nine characters: `0.3333`, `-1.2e-05`, `nan`.

    >>> [number(x) for x in (0.0, 1.0, 1 / 3, -0.000012, 123456.0)]
    ['0', '1', '0.3333', '-1.2e-05', '1.23e+05']
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    return f"{value:.4g}" if 1e-3 <= abs(value) < 1e5 else f"{value:.3g}"


def numbers(tensor: torch.Tensor, most: int = 4) -> str:
    """Return `[0.5, -1, 2, 0, …]`: the first `most` values of a tensor, or the one value of a scalar.

    Of a tensor that does not list its values, such as a nested one, return `…`.
    """
    flat = _listed(tensor, most)
    shown = [f"{x:.3g}" if isinstance(x, complex) else number(x) for x in flat]
    if tensor.dim() == 0 or (not shown and tensor.numel()):
        return shown[0] if shown else "…"
    return f"[{', '.join(shown)}{', …' if tensor.numel() > len(shown) else ''}]"


def _listed(tensor: torch.Tensor, most: int) -> list[Any]:
    try:
        return tensor.detach().reshape(-1)[:most].tolist() if tensor.layout == torch.strided else []
    except RuntimeError:  # nested tensors, and those that have no storage, hold no list of values
        return []


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    return (tensor.size(0), *(-1,) * (tensor.dim() - 1)) if tensor.is_nested else tuple(tensor.shape)
