"""The rules for a recording, by what they look at, and `audit_run`, which asks them.

A rule is a function from a `Recording` to findings:

    @rule("BS304")
    def dead_output(recording: Recording) -> Iterator[Finding]: ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from backsight.diagnosis.causes import follows, in_order, one_for_each_cause
from backsight.diagnosis.finding import Finding, Report
from backsight.diagnosis.recordings import depth, losses, non_finite, quiet  # noqa: F401  # each enters itself
from backsight.diagnosis.recordings.recording import RULES, Progress, Recording, rule
from backsight.diagnosis.wording import counted, listed
from backsight.findings.printing.data import from_data
from backsight.runs import FOUND, Run

__all__ = ["RULES", "Recording", "audit_run", "rule"]


def audit_run(run: Run, progress: Progress = lambda read, of: None) -> Report:
    """Look for what went wrong in a recorded training; `run.audit()` is the same.

    ```python
    print(backsight.open_run("runs/first").audit())
    ```

    The rules and their codes (BS301 and on) are listed in `docs/codes/`. A rule speaks only of what was recorded:
    without the tap "update", for instance, nothing is said of updates. Several ranks are looked at as one; of more than
    64, only the lowest. Of more than 2000 steps, 2000 evenly chosen ones are looked at; but NaN and infinity are found
    wherever they are. What `backsight run --record` found while the program ran is in it as well.

    progress: called with how many tensors have been read, and of how many; what it raises ends the audit.

    Returns:
        A `Report`: its `findings`, the gravest first, and of these what began first.
    """
    ranks, run = len(run.ranks), run.overview
    before = list(_found_before(run))
    recording = Recording(run, progress, before)
    rules = RULES.values() if len(recording.steps) else ()  # without a step there is nothing to look at
    findings = one_for_each_cause([*(finding for rule in rules for finding in rule(recording)), *before])
    findings = [_with_consequences(finding, before, findings) for finding in findings]
    findings.sort(key=lambda finding: finding.code)
    steps = recording.steps[np.isin(recording.steps, run.training_steps)]
    step = "recorded step" if len(steps) and len(steps) <= int(steps[-1]) else "step"
    looked_at = f"{counted(len(steps), step)} of {counted(len(run.tensors), 'tensor')}"
    if ranks > len(run.ranks):
        looked_at += f", as rank {run.ranks[0]} of {ranks:,} recorded them"
    if any(event.event == "broke off" for event in run.events):
        looked_at += ", after which the recording stopped"
    return Report(in_order(findings), looked_at)


def _with_consequences(finding: Finding, before: Sequence[Finding], told: Sequence[Finding]) -> Finding:
    """Say with a finding which others were shown while the program ran, and are only a consequence of it."""
    also = sorted({each.code for each in before if each not in told and follows(each, finding)})
    if not also:
        return finding
    return replace(finding, evidence=(*finding.evidence, f"`backsight run` found its consequence: {listed(also)}."))


def _found_before(run: Run) -> Iterator[Finding]:
    """Yield what was found while the run was recorded."""
    for event in run.events:
        held = event.details.get("findings") if event.event == FOUND else None
        yield from filter(None, map(from_data, held if isinstance(held, list) else ()))
