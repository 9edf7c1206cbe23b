"""Which step of a forward is differentiated wrongly: each is altered in turn, until the wrong gradient comes out."""

from backsight.verification.steps.search import Found, found, numbers_in

__all__ = ["Found", "found", "numbers_in"]
