"""The rules for a recording, each in a file of its own, one code each.

A rule is a function from a `Recording` to findings:

    @rule("BS304")
    def dead_output(recording: Recording) -> Iterator[Finding]: ...
"""

from backsight.diagnosis.recordings import (  # noqa: F401  # each enters itself
    constant_output,
    dead_output,
    exploding,
    lost_loss,
    never_moves,
    non_finite,
    saturated,
    update_ratio,
    vanishing,
)
from backsight.diagnosis.recordings.auditing import audit_run
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import RULES, Rule, rule

__all__ = [
    "RULES",
    "Recording",
    "Rule",
    "audit_run",
    "rule",
]
