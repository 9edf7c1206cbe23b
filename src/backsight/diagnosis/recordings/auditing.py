"""`audit_run`: look at what a training recorded, by rules."""

from __future__ import annotations

from backsight.diagnosis.finding import SEVERITIES, Report
from backsight.diagnosis.recordings.recording import Progress, Recording
from backsight.diagnosis.recordings.registry import RULES
from backsight.diagnosis.wording import counted
from backsight.runs import Run


def audit_run(run: Run, progress: Progress = lambda read, of: None) -> Report:
    """Look for what went wrong in a recorded training; `run.audit()` is the same.

    ```python
    print(backsight.open_run("runs/first").audit())
    ```

    The rules and their codes (BS301 and on) are listed in `docs/codes/`. A rule speaks only of what was recorded:
    without the tap "update", for instance, nothing is said of updates. Several ranks are looked at as one; of more than
    64, only the lowest. Of more than 2000 steps, 2000 evenly chosen ones are looked at; but NaN and infinity are found
    wherever they are.

    progress: called with how many tensors have been read, and of how many; what it raises ends the audit.

    Returns:
        A `Report`: its `findings`, the gravest first.
    """
    ranks, run = len(run.ranks), run.overview
    recording = Recording(run, progress)
    rules = RULES.values() if len(recording.steps) else ()  # without a step there is nothing to look at
    findings = [finding for rule in rules for finding in rule(recording)]
    findings.sort(key=lambda finding: (SEVERITIES.index(finding.severity), finding.code))
    steps = recording.steps
    step = "recorded step" if len(steps) and len(steps) <= int(steps[-1]) else "step"
    looked_at = f"{counted(len(steps), step)} of {counted(len(run.tensors), 'tensor')}"
    if ranks > len(run.ranks):
        looked_at += f", as rank {run.ranks[0]} of {ranks:,} recorded them"
    if any(event.event == "broke off" for event in run.events):
        looked_at += ", after which the recording stopped"
    return Report(tuple(findings), looked_at)
