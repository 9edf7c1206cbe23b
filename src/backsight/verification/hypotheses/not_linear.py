"""BS418: backward is not linear in grad_output, and nothing else explains the gradient."""

from __future__ import annotations

import torch

from backsight.verification.case import Case
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.wording import number


def not_linear(case: Case) -> Explanation | None:
    """For the sum of two grad_outputs it does not return the sum."""
    if case.together is None:
        return None
    first, second = case.draws
    got, sums = case.at(case.together), case.at(first.got + second.got)
    unequal = ~case.equal(got, sums)
    if not bool(unequal.any()):
        return None
    worst = (got - sums).abs().argmax()
    evidence = [
        f"For the sum of two gradients it must return the sum of what it returns for each; {case.counted(unequal)} "
        f"for `{case.argument}` differ: one is {number(got[worst])} but must be {number(sums[worst])}.",
    ]
    if grown := _growth(case):
        evidence.append(f"Twice the {case.grad_output} makes it {grown} as large.")
    return Explanation(
        f"{case.subject} is not linear in {case.grad_output}.",
        tuple(evidence),
        f"Return {case.grad_output} times the derivative of forward, which does not depend on it. To clip or "
        "normalize gradients, use a hook, so the Function itself stays right.",
        severity="error" if case.definition is not None else "warning",  # PyTorch's own may lose digits
    )


def _growth(case: Case) -> str:
    """Return how much larger a result becomes, where it is the same factor everywhere and not two."""
    once, twice = case.draws[0].got, case.backward([2 * u for u in case.draws[0].us])
    if twice is None:
        return ""
    known = ~case.equal(torch.zeros_like(once), once)
    ratio = (twice[known] / once[known]).abs()
    if not ratio.numel() or float(ratio.max() - ratio.min()) > 1e-2 * float(ratio.max()):
        return ""
    grown = float(ratio.mean())
    if abs(grown - 2) < 1e-2:  # as it has to be
        return ""
    return "just" if abs(grown - 1) < 1e-2 else f"{grown:.3g} times"
