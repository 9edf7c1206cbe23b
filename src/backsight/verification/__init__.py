"""Is this backward right? Each operation's gradient tested against its forward, and explained where it is wrong."""

from backsight.verification.codes import CODES
from backsight.verification.live import verify_graph
from backsight.verification.report import Checked, Skipped, Verification, VerificationFailed, WrongGradient

__all__ = ["CODES", "Checked", "Skipped", "Verification", "VerificationFailed", "WrongGradient", "verify_graph"]
