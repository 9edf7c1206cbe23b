"""Looking at values: what is asked of a tensor's numbers, and when it is better not to ask.

Reading a value waits for the device, and on a distributed tensor it communicates, which would hang where only one rank
audits. So only plain tensors are read.
"""

from __future__ import annotations

import torch

from backsight.tape.saved import is_readable


def is_finite(tensor: torch.Tensor) -> bool | None:
    """Whether all values are finite; None where they cannot be looked at."""
    numbers = _numbers(tensor)
    return None if numbers is None else bool(torch.isfinite(numbers).all())


def is_zero(tensor: torch.Tensor) -> bool | None:
    """Whether all values are zero; None where they cannot be looked at."""
    numbers = _numbers(tensor)
    return None if numbers is None else not bool(torch.any(numbers != 0))


def has_only_negative_infinities(tensor: torch.Tensor) -> bool:
    """Whether the values that are not finite are all -inf, as in masked scores and log-probabilities of zero."""
    numbers = _numbers(tensor)
    if numbers is None or numbers.is_complex():
        return False
    return not bool((torch.isnan(numbers) | torch.isposinf(numbers)).any())


def _numbers(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the tensor, of a sparse one the values, without history."""
    if not is_readable(tensor):
        return None
    with torch.no_grad():
        if tensor.layout == torch.strided:
            return tensor.detach()
        return tensor.detach()._values() if tensor.layout == torch.sparse_coo else None
