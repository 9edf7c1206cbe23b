"""BS419: the gradient is NaN or infinite where the forward is not."""

from __future__ import annotations

import torch

from backsight.verification.case import Case
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.wording import number


def not_finite(case: Case) -> Explanation | None:
    """Some entries are NaN or infinite; differences of the forward show that the derivative is not."""
    got = case.at(case.draws[0].got)
    bad = ~torch.isfinite(got)
    if not bool(bad.any()):
        return None
    kind = "NaN" if bool(torch.isnan(got).any()) else "infinite"
    example = int(bad.nonzero()[0])
    return Explanation(
        f"{case.subject} returns {kind} for `{case.argument}`, where forward is finite.",
        (
            f"{case.counted(bad).capitalize()} are {kind}; the first is where `{case.argument}` is "
            f"{number(case.at(case.input)[example])}, and {number(case.draws[0].right[example])} is right there.",
            "One such entry makes every weight before it NaN.",
        ),
        "Handle these values separately before dividing: 0 / 0 stays NaN under a later torch.where, so replace the "
        "divisor, "
        "as in x / norm.clamp_min(1e-12).",
    )
