"""What is always true of a wrong gradient: which of its entries are wrong, and by how much."""

from __future__ import annotations

import torch

from backsight.verification.manual.hypotheses.registry import hypothesis
from backsight.verification.manual.mistake import Mistake, Told
from backsight.verification.wording import number

WORST = 3


@hypothesis("BS400", 5)
def nearly_right(mistake: Mistake) -> Told | None:
    """Right to a few digits."""
    error = float((mistake.given - mistake.right).abs().max() / mistake.right.abs().max().clamp_min(1e-300))
    if not error < 1e-2:
        return None
    return Told(
        f"is right to {error:.1g} only",
        f"That is the largest difference, relative to the largest entry; {mistake.tolerance:.1g} is allowed.\n"
        f"{_worst(mistake)}",
        "Such a difference comes from a term such as eps that was left out, from numerical differentiation, or from "
        "a coarser dtype; pass tolerance= if it is meant.",
    )


@hypothesis("BS400", 6)
def wrong_entries(mistake: Mistake) -> Told | None:
    """Some entries are wrong."""
    wrong = mistake.wrong
    count, every = int(wrong.sum()), wrong.numel()
    which = "in every entry" if count == every else f"in {count} of its {every} entries{_where(wrong)}"
    return Told(f"is wrong {which}", _worst(mistake), "")


def _where(wrong: torch.Tensor) -> str:
    """Say along which rows or columns the wrong entries lie, if they lie along few."""
    for dim in range(wrong.dim()):
        others = tuple(k for k in range(wrong.dim()) if k != dim)
        hit = wrong.any(others) if others else wrong
        whole = wrong.all(others) if others else wrong
        places = hit.nonzero().flatten().tolist()
        if len(places) < hit.numel() and bool((hit == whole).all()) and others:
            kind = {0: "row", 1: "column"}.get(dim, f"place in dimension {dim}")
            listed = ", ".join(map(str, places[:6])) + (", …" if len(places) > 6 else "")
            return f": all of {kind}{'s' * (len(places) > 1)} {listed}"
    return ""


def _worst(mistake: Mistake) -> str:
    """Return the entries that are most wrong, a line each."""
    gaps = (mistake.given - mistake.right).abs().flatten()
    order = gaps.argsort(descending=True)[: min(WORST, int(mistake.wrong.sum()))].tolist()
    lines = []
    for k in order:
        place = ", ".join(map(str, (int(i) for i in torch.unravel_index(torch.tensor(k), mistake.right.shape))))
        given, right = mistake.given.flatten()[k], mistake.right.flatten()[k]
        lines.append(f"  [{place}] is {number(given)}, right is {number(right)}{_ratio(given, right)}")
    return "\n".join(["The worst:", *lines])


def _ratio(given: torch.Tensor, right: torch.Tensor) -> str:
    if given.is_complex() or not float(right):
        return ""
    return f" ({float(given / right):.3g} times)"
