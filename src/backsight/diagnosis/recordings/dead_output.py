"""BS304: a module returns nothing but zeros."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.quiet import given, is_zero, silences
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.wording import counted


@rule("BS304")
def dead_output(recording: Recording) -> Iterator[Finding]:
    """All of an output has been zero for ten steps up to the end, though the input of the module is not constant."""
    for silence in silences(recording, is_zero):
        range_given = given(recording, silence.module)
        yield Finding(
            "BS304",
            "warning",
            f"{silence.module.label} has returned only zeros since step {silence.since}.",
            (
                f"All {int(silence.rows['count'][-1])} elements of {silence.rows.tensor.name} were 0 in "
                f"{counted(silence.steps, 'recorded step')}, to the end{', ' * bool(range_given)}{range_given}.",
                "What is before it in the network gets no gradient through it.",
            ),
            "If it is a ReLU, its units have died: lower the learning rate, clip gradients, or use LeakyReLU or GELU. "
            "If it is a layer, look at how its weights were initialized, and whether they are trained.",
        )
