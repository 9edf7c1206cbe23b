"""How a gradient that was derived by hand may be wrong: one hypothesis a function, the first that fits explains."""

from backsight.verification.manual.hypotheses import entries, shapes, steps, values  # noqa: F401  # they enter themselves
from backsight.verification.manual.hypotheses.registry import explained

__all__ = ["explained"]
