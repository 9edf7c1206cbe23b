"""How a gradient is wrong: small hypotheses, of which the first that fits explains it."""

from backsight.verification.hypotheses.explanation import EveryEntry, Explanation, Misshapen
from backsight.verification.hypotheses.registry import HYPOTHESES, certain, explained
from backsight.verification.hypotheses.surrogate import as_declared
from backsight.verification.hypotheses.unexplained import out_of_time
from backsight.verification.hypotheses.wrong_step import also

__all__ = [
    "HYPOTHESES",
    "EveryEntry",
    "Explanation",
    "Misshapen",
    "also",
    "as_declared",
    "certain",
    "explained",
    "out_of_time",
]
