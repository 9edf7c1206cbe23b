"""Is this backward right? Each operation's gradient tested against its forward, and explained where it is wrong.

Offered to other rooms: `manual`.
"""

from backsight.verification.codes import CODES
from backsight.verification.errors import NothingToVerify
from backsight.verification.hypotheses import Misshapen
from backsight.verification.live import verify_graph
from backsight.verification.report import Checked, Skipped, Verification, VerificationFailed, WrongGradient
from backsight.verification.second_order import verify_second_order
from backsight.verification.surrogates import surrogate
from backsight.verification.verify import verify

__all__ = [
    "CODES",
    "Checked",
    "Misshapen",
    "NothingToVerify",
    "Skipped",
    "Verification",
    "VerificationFailed",
    "WrongGradient",
    "surrogate",
    "verify",
    "verify_graph",
    "verify_second_order",
]
