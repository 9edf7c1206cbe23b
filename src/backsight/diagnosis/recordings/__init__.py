"""The rules for a recording, by what they look at.

A rule is a function from a `Recording` to findings:

    @rule("BS304")
    def dead_output(recording: Recording) -> Iterator[Finding]: ...
"""

from backsight.diagnosis.recordings import (  # noqa: F401  # each enters itself
    depth,
    lost_loss,
    non_finite,
    not_falling,
    quiet,
    saturated,
    update_ratio,
)
from backsight.diagnosis.recordings.auditing import FOUND, audit_run
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import RULES, Rule, rule

__all__ = [
    "FOUND",
    "RULES",
    "Recording",
    "Rule",
    "audit_run",
    "rule",
]
