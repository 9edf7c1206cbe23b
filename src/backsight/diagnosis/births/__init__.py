"""Births of NaN and infinity: where, why, and what to write instead.

Why is a matter of the operation; each kind is a small function, entered by the operation's name:

    @cause("log", "log2")
    def logarithm(birth: Birth) -> Cause | None: ...
"""

from backsight.diagnosis.births import elementary
from backsight.diagnosis.births.birth import BIRTH, CAUSES, Birth, Cause, cause, cause_of, told

__all__ = ["BIRTH", "CAUSES", "Birth", "Cause", "cause", "cause_of", "elementary", "told"]
