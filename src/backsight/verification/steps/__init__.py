"""Which step of a forward is differentiated wrongly: each is altered in turn, until the wrong gradient comes out."""

from backsight.verification.steps.search import counts_in, factor_of, found, last_step, numbers_in, repeated
from backsight.verification.steps.telling import Found

__all__ = ["Found", "counts_in", "factor_of", "found", "last_step", "numbers_in", "repeated"]
