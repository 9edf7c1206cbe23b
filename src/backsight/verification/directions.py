"""Random directions, and how far along one of them a tensor reaches.

The test of a backward is <u, J v> = <Jᵀ u, v>: u a direction among the outputs, v among the inputs. The two are drawn
one after the other from one generator. Drawn each from a generator of its own with the same seed they would be equal
wherever the shapes are, and <u, A u> = <Aᵀ u, u> holds for every A: a missing transpose would pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

Vector = Sequence[torch.Tensor]


def drawn(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return a normal direction of the shape, dtype and device of a tensor, the same on every device."""
    direction = torch.randn(like.shape, dtype=like.dtype, generator=generator)
    return direction if like.device.type == "cpu" else direction.to(like.device)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in double precision; integers and booleans as they are."""
    if tensor.is_floating_point():
        return tensor.double()
    return tensor.to(torch.complex128) if tensor.is_complex() else tensor


def products(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the terms of <a, b>; complex numbers count as two real ones, as autograd takes them."""
    a, b = wide(a), wide(b)
    return (a.conj() * b).real if a.is_complex() or b.is_complex() else a * b


def inner(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return <a, b>."""
    if a.dtype == b.dtype == torch.float64:
        return float(torch.dot(a.reshape(-1), b.reshape(-1)))
    return float(products(a, b).sum())


def asked(u: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Leave out the values that u does not ask for: outputs that are infinite, as masked logits are."""
    return values if bool(u.all()) else values.where(u != 0, 0.0)


def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors hold the same values."""
    if a.dtype is torch.complex32:  # which torch.equal does not take
        a, b = wide(a), wide(b)
    return torch.equal(a, b)


def size_of(tensor: torch.Tensor) -> float:
    """Return the root mean square of the finite values; 1 where there are none, or all are zero."""
    if not tensor.numel():
        return 1.0
    size = float(torch.linalg.vector_norm(tensor)) / tensor.numel() ** 0.5
    if size != size or size == float("inf"):
        finite = tensor[torch.isfinite(tensor)]
        return size_of(finite) if finite.numel() < tensor.numel() else 1.0
    return size or 1.0


def precision(tensors: Vector) -> float:
    """Return the relative precision of the coarsest dtype among floating-point and complex tensors."""
    eps = [torch.finfo(each.dtype).eps for each in tensors if each.is_floating_point() or each.is_complex()]
    return max(eps, default=2.0**-52)


def narrowest(tensor: torch.Tensor) -> torch.dtype | None:
    """Return the narrowest type that holds every entry of a float64 tensor; None for float64, zeros and integers."""
    if tensor.dtype != torch.float64 or not tensor.numel() or not torch.equal(tensor, tensor.float().double()):
        return None
    if torch.equal(tensor, tensor.round()):
        return None
    for dtype in (torch.bfloat16, torch.float16):
        if torch.equal(tensor, tensor.to(dtype).double()):
            return dtype
    return torch.float32
