"""Is this backward right? Each operation's gradient tested against its forward, and explained where it is wrong."""

from backsight.verification.codes import CODES
from backsight.verification.errors import NothingToVerify
from backsight.verification.report import Checked, Skipped, Verification, VerificationFailed, WrongGradient
from backsight.verification.verify import verify

__all__ = [
    "CODES",
    "Checked",
    "NothingToVerify",
    "Skipped",
    "Verification",
    "VerificationFailed",
    "WrongGradient",
    "verify",
]
