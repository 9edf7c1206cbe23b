"""Random vectors to call a backward with, and how exactly what it returns can be compared.

Probes are multiples of 1/16 between -2 and 2. So `u + v` has no rounding error in any dtype, bfloat16 included,
and whatever is not linear in it is the backward's own doing.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

STEPS = 32
GRID = 16


class Generators(dict[torch.device, torch.Generator]):
    """A seeded generator for each device: numbers for a GPU are drawn on it."""

    def __missing__(self, device: torch.device) -> torch.Generator:
        try:
            made = torch.Generator(device)
        except RuntimeError:  # a device without random numbers of its own
            made = torch.Generator()
        self[device] = made.manual_seed(0)
        return made


def probe(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device, generators: Generators) -> torch.Tensor:
    """Return a tensor of random multiples of 1/16."""
    if dtype.is_complex:
        real = torch.float32 if dtype == torch.complex64 else torch.float64
        return torch.complex(*(probe(shape, real, device, generators) for _ in range(2))).to(dtype)
    generator = generators[device]
    drawn = torch.randint(-STEPS, STEPS + 1, shape, generator=generator, device=generator.device)
    return (drawn.to(dtype) / GRID).to(device)


def can_be_probed(dtype: torch.dtype) -> bool:
    """Whether arithmetic is defined for a dtype: floating-point and complex ones of at least 16 bits."""
    return dtype.is_complex or (dtype.is_floating_point and torch.finfo(dtype).bits >= 16)


def tolerance(dtypes: Iterable[torch.dtype]) -> float:
    """Return the relative difference that rounding may explain, for computations in these dtypes.

    4e-10 in float64, 7e-5 in float32, 5e-2 in bfloat16.
    """
    coarsest = [torch.finfo(dtype).eps for dtype in dtypes if dtype.is_floating_point or dtype.is_complex]
    return float(max(coarsest, default=0.0) ** 0.6)
