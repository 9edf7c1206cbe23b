"""BS405, in particular: the gradient is shifted or turned round along a dimension."""

from __future__ import annotations

import torch

from backsight.verification.case import Case, Draw
from backsight.verification.hypotheses.explanation import Explanation

FEWEST = 3
"""Of fewer entries along a dimension nothing remains to be compared."""


def shifted(case: Case) -> Explanation | None:
    """Every entry is the right one of its neighbor, up to the border; or that of the other end."""
    if case.positions.numel() != case.shape.numel():
        return None
    for dim, size in enumerate(case.shape):
        if size >= FEWEST and case.fits(lambda draw, dim=dim: draw.got.flip(dim)):  # type: ignore[misc]
            return Explanation(
                f"{case.subject} returns the gradient of `{case.argument}` in reverse order along dimension {dim}.",
                ("Reversed, every entry is right.",),
                f"Reverse it: `.flip({dim})`. A loop back through forward visits the last step first.",
            )
    for dim, size in enumerate(case.shape):
        for by in (1, -1):
            if size >= FEWEST and all(_is_shifted(case, draw, dim, by) for draw in case.draws):
                where = "before" if by < 0 else "behind"
                return Explanation(
                    f"{case.subject} returns the gradient of `{case.argument}` shifted by one along dimension {dim}.",
                    (f"Every entry is the right one for the entry {where} it.",),
                    "Check what is sliced or padded: padding in front in forward is the offset of the gradient.",
                )
    return None


def _is_shifted(case: Case, draw: Draw, dim: int, by: int) -> bool:
    got, right = draw.got, draw.right.reshape(case.shape)
    count = case.shape[dim] - 1
    mine, other = got.narrow(dim, 0 if by > 0 else 1, count), right.narrow(dim, 1 if by > 0 else 0, count)
    return bool(torch.any(other != 0)) and bool(case.equal(mine, other).all())
