"""BS308: a module returns the same number for everything."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.quiet import given, is_constant, is_zero, silences
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.wording import counted


@rule("BS308")
def constant_output(recording: Recording) -> Iterator[Finding]:
    """All elements of an output were the same number, not 0, for ten steps up to the end, though the input varies."""
    for silence in silences(recording, is_constant):
        if is_zero(silence.rows)[-1]:
            continue  # BS304
        range_given = given(recording, silence.module)
        yield Finding(
            "BS308",
            "warning",
            f"{silence.module.label} has returned one and the same number for everything since step {silence.since}.",
            (
                f"All {int(silence.rows['count'][-1])} elements of {silence.rows.tensor.name} were equal "
                f"({silence.rows['mean'][-1]:.4g} in the last step) in {counted(silence.steps, 'recorded step')}, to the "
                f"end{', ' * bool(range_given)}{range_given}.",
            ),
            "The network has collapsed here: look at the scale of what the module is given, at its weights, and at the "
            "learning rate.",
        )
